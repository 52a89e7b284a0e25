import ConsoleSupport
import HTTPTypes
import QuerySupport
import Testing

/// How large pages are over a database with more than a page of everything.
@Suite("page weight", .timeLimit(.minutes(5)))
struct PageWeightTests {
    /// The most bytes of a page, before it is packed.
    private static let most = 60_000
    /// What is no page of what is stored.
    private static let others: Set = [
        "/livez", "/readyz", "/sign-in", "/sign-in/once/:secret", "/assets/:digest/:name",
    ]

    /// 30 handlers, 10 workers, half of them silent, and 120 and more of what lists show, with long texts.
    private static let rows = """
        INSERT INTO upstream.handlers (name, paused, paused_reason, paused_at, seen_at)
        SELECT 'handler-number-' || n, n % 3 = 0, CASE WHEN n % 3 = 0 THEN repeat('reason ', 20) END, now(), now()
        FROM generate_series(1, 30) AS n;
        INSERT INTO upstream.subscriptions SELECT 'handler-number-' || n, 'com.example.category-' || c
        FROM generate_series(1, 30) AS n, generate_series(1, 3) AS c;
        INSERT INTO upstream.workers
        SELECT gen_random_uuid(), 'worker-' || n || '.region.example.com:4711', '1.2.3', '{receive,dispatch}', now(),
            now() - n % 2 * interval '1 hour', false, 7, '[{"sender":"1234567890","bound":1,"connecting":0,"draining":0}]', '{}',
            (SELECT jsonb_agg(jsonb_build_object(
                'handler', 'handler-number-' || h, 'circuit', 'open', 'next_probe', 30, 'paused', false, 'running', 0,
                'waiting', 0, 'attempts', 1, 'failed', 1)) FROM generate_series(1, 30) AS h)
        FROM generate_series(1, 10) AS n;
        INSERT INTO upstream.deliveries (handler, message_key, received_at, attempts, next_attempt_at, last_error)
        SELECT 'handler-number-' || n % 30 + 1, gen_random_uuid(), now(), 3, now() + interval '1 h', repeat('waiting ', 40)
        FROM generate_series(1, 3600) AS n;
        INSERT INTO upstream.dead_letters (
            handler, message_key, received_at, attempts, next_attempt_at, lease_token, last_error, error_group
        ) SELECT 'handler-number-' || n % 30 + 1, gen_random_uuid(), now(), 20, now(), 0, repeat('dead ', 60),
            'webhook status ' || n % 30 || repeat(' words', 20)
        FROM generate_series(1, 3600) AS n;
        INSERT INTO upstream.dead_letters (
            handler, message_key, received_at, attempts, next_attempt_at, lease_token, last_error, error_group
        ) SELECT 'billing', gen_random_uuid(), now(), 20, now(), 0, repeat('dead ', 60), 'one group ' || n % 120
        FROM generate_series(1, 240) AS n;
        INSERT INTO upstream.attempt_batches (
            settled_at, handler, worker, outcome, first_received, last_received, keys, ages, durations, error_groups
        ) SELECT now() - a * interval '1 minute', 'orders', 'worker-1', 'retry', received_at, received_at,
            ARRAY[message_key], '{1}', '{1}', ARRAY['webhook status 503' || repeat(' words', 20)]
        FROM upstream.messages, generate_series(1, 30) AS a;
        INSERT INTO upstream.quarantine (
            sender_id, message_id, reason, detail, stanza, digest, times_seen, received_at, last_seen_at
        ) SELECT '1234567890', 'message-' || n, 'payload_not_json', repeat('detail ', 20), convert_to(repeat('<a>', 300), 'UTF8'),
            sha256(convert_to(n::text, 'UTF8')), 1, now(), now()
        FROM generate_series(1, 120) AS n;
        INSERT INTO upstream.conflicts (
            message_key, sender_id, message_id, registration_token, device_key, category, data, received_at, fingerprint,
            times_seen, last_seen_at
        ) SELECT gen_random_uuid(), '1234567890', 'message-' || n, 't', gen_random_uuid(), 'com.example.orders', '{"a":1}', now(),
            gen_random_uuid(), 2, now()
        FROM generate_series(1, 120) AS n;
        INSERT INTO upstream.replays (name, kind, target, occupies, selection, options, created_by, planned)
        SELECT 'replay-of-friday-' || n, 'handlers', 'handler-number-1, handler-number-2', '{}', '{}', '{"pace":{}}',
            'kim@host', 1000
        FROM generate_series(1, 120) AS n;
        INSERT INTO upstream.replay_events (replay_id, event, who, done, detail)
        SELECT replay_id, 'failed', 'kim@host', 0, repeat('event ', 30) FROM upstream.replays, generate_series(1, 40);
        INSERT INTO upstream.jobs (
            action, subject, groups, state, planned, chunks, created_by, expires_at, started_by, started_at, last_error)
        SELECT 'dead.retry', 'dead letters, messages' || repeat(' ' || gen_random_uuid(), 20), '[]',
            CASE WHEN n > 60 THEN 'failed' ELSE 'running' END, 1000000, 1000, 'kim', now(), 'kim', now(), repeat('error ', 30)
        FROM generate_series(1, 120) AS n;
        SELECT upstream.record_audit('kim', 'console', 'dead.discard', 'dead letters, messages'
            || repeat(' ' || gen_random_uuid(), 20), 20, repeat('reason ', 20))
        FROM generate_series(1, 120);
        SELECT upstream.ensure_samples(current_date - 8, current_date + 1);
        INSERT INTO upstream.samples (
            at, kind, subject, instance, received, stored, handled, failed, times, waiting, oldest, held, started
        ) SELECT date_trunc('minute', now()) - n * interval '1 minute', kind, subject, gen_random_uuid(), 60 + n % 7, 60, 90, n % 31,
            '{0,0,0,0,0,0,0,60,60}'::int[] || array_fill(0, ARRAY[8]), n % 1000, n % 100, n % 1000 < 50,
            CASE WHEN n % 1440 = 0 AND kind = 'store' THEN '9.8.7' END
        FROM generate_series(0, 10079) AS n, (VALUES ('store', ''), ('handler', 'orders')) AS s (kind, subject);
        ANALYZE;
        """

    @Test("every page over a database with much of everything is under 60 KB")
    func everyPage() async throws {
        let routes = try await SecrecyStage.routes()
        try await SecrecyStage.run(isHidden: false) { console, stage in
            try await console.database.add(
                (0..<120).map {
                    Seed(
                        id: "message-\($0)-" + String(repeating: "x", count: 40),
                        data: #"{"note":"\#(String(repeating: "text ", count: 100))"}"#,
                        at: Int64($0) * 1_000
                    )
                }
            )
            try await console.database.script(Self.rows)
            var addresses = [
                "/?range=24h", "/?range=7d", "/handlers/orders?range=24h", "/handlers/orders?range=7d",
                "/dead?text=webhook",
                "/dead/letters?handler=billing", "/deliveries?handler=handler-number-1", "/quarantine?state=all",
            ]
            for (route, methods) in routes where methods.contains(.get) {
                guard !route.hasPrefix("/api/"), !Self.others.contains(route) else { continue }
                addresses += try #require(stage.addresses(route), "there is no address for \(route)")
            }
            for address in addresses.sorted() {
                let reply = try await console.get(address, as: .operator_)
                #expect(reply.status == 200, "\(address): \(reply.text.prefix(300))")
                #expect(reply.text.utf8.count < Self.most, "\(address): \(reply.text.utf8.count) bytes")
            }
        }
    }
}
