import Foundation
import IntegrationSupport
import QuerySupport
import Vocabulary

/// A command that prepares a stage failed.
private struct StageFailure: Error {
    var text: String
}

/// The database that the documents' commands look at: their messages, handlers and files, as far as a block names them.
struct DocumentedStage {
    private let stage: CommandStage
    private let files: [String: String]

    /// The stage of a block.
    init(for text: String) async throws {
        let now = (Date().timeIntervalSince1970 * 1e6).rounded()
        let start = Double(QueryFixture.start.microseconds)
        func seed(
            _ id: String,
            _ category: String,
            ago: Double = 0,
            date: Double? = nil,
            total: String = "190.50",
            token: String = "token-SECRET-a"
        ) -> Seed {
            let time = date ?? (now - ago * 1e6)
            let data = #"{"order":{"id":4752,"total":\#(total),"items":[{"sku":"A-52","count":2}]},"status":"ok"}"#
            return Seed(id: id, category: category, token: token, data: data, at: Int64(time - start))
        }
        stage = try await CommandStage()
        // Days that commands name, a day that retention drops while the ledger still keeps its ids, and those of now.
        try await stage.fixture.script(
            """
            SELECT upstream.ensure_partitions(first, last)
            FROM (SELECT (now() AT TIME ZONE 'UTC')::date) AS clock (today), LATERAL (VALUES
                ('2026-01-29'::date, '2026-01-30'::date), ('2026-10-15', '2026-10-15'), (today - 63, today - 62),
                (today - 1, today + 7)
            ) AS days (first, last)
            """
        )
        let orders = [4752: 3_000.0, 4756: 1_500, 4757: 1_200, 4758: 900, 4760: 600]
        try await stage.fixture.add(
            orders.sorted { $0.key < $1.key }.map {
                seed(
                    "order-\($0.key)",
                    "com.example.orders",
                    ago: $0.value,
                    total: $0.key == 4752 ? "182.00" : "190.50"
                )
            } + [
                seed("order-4711", "com.example.orders", ago: 500, total: "12"),
                seed("chat-1", "com.example.chat", ago: 400),
                seed("old-1", "com.example.orders", date: 1_769_770_800_000_000),
                seed("old-2", "com.example.chat", date: 1_792_080_000_000_000),
                seed("old-3", "com.example.orders", date: 1_769_770_800_000_000),
                seed("gone-1", "com.example.chat", ago: 62 * 86_400),
                seed("erased-1", "com.example.chat", ago: 300, token: "token-SECRET-b"),
                seed("held-1", "com.example.chat", date: start - 8 * 86_400e6),
                seed("held-2", "com.example.chat", date: start - 8 * 86_400e6),
            ]
        )
        try await stage.fixture.add(
            [4752, 4757].map { seed("order-\($0)", "com.example.orders", ago: 200, total: "7") },
            into: "conflicts"
        )
        try await stage.fixture.script(Self.content)
        for (name, category) in [("audit", "*"), ("billing", "com.example.orders"), ("orders", "com.example.orders")]
        where text.contains(name) {
            try await stage.fixture.script("INSERT INTO upstream.subscriptions VALUES ('\(name)', '\(category)')")
        }
        if text.contains("replay status") && !text.contains("replay plan") {
            try await stage.fixture.script(Self.replay)
        }
        let export = stage.folder["export.ndjson"]
        _ = try await stage.run(["messages", "export", "--with-tokens", "--output", export])
        let lines = try String(contentsOfFile: export, encoding: .utf8)
        files = [
            "token.txt": try stage.folder.write("token-SECRET-a".utf8, as: "token.txt"), "export.ndjson": export,
            "acks.ndjson": export, "day.ndjson": try stage.folder.write((lines + "[1]\n").utf8, as: "day.ndjson"),
            "october.ndjson": stage.folder["october.ndjson"], "staging.yaml": stage.configuration,
        ]
        if text.contains("audit --against") {
            // The ledger's sum has days without bodies in it, and an erased device.
            for table in ["deliveries", "dead_letters"] {
                try await stage.fixture.script("DELETE FROM upstream.\(table) WHERE received_at < '2026-03-01'")
            }
            let erased = try stage.folder.write("token-SECRET-b".utf8, as: "erased.txt")
            for words in [["partitions", "run"], ["forget", "--token-file", erased, "--yes"]] {
                let run = try await stage.run(words)
                guard run.status == 0 else { throw StageFailure(text: run.errors) }
            }
        }
    }

    /// Runs a command of the block as on a terminal of this width, and returns all that it prints.
    func run(_ words: [String], columns: Int) async throws -> CommandRun {
        var run = try await stage.run(words.map { files[$0] ?? $0 }, columns: columns)
        // What is redrawn on stderr is no line.
        run.errors = run.errors.components(separatedBy: "\n").map {
            String($0.components(separatedBy: "\r\u{1B}[K").last ?? "")
        }.joined(separator: "\n")
        return run
    }

    /// Runs a statement and takes it back.
    func tryOut(_ sql: String) async throws {
        try await stage.fixture.script("BEGIN; \(sql); ROLLBACK")
    }

    private static let content = """
        INSERT INTO upstream.handlers (name, registered_at, seen_at) VALUES
            ('audit', now(), now()), ('billing', '2026-01-01', now()), ('orders', '2026-01-01', now()),
            ('legacy', '2026-01-01', now() - interval '1 day'), ('sample', '2026-01-01', now());
        INSERT INTO upstream.subscriptions VALUES
            ('legacy', 'com.example.legacy'), ('sample', 'com.example.sample');
        INSERT INTO upstream.handler_workers (token, handler, worker, categories, by_device)
        VALUES (1, 'sample', 'worker-1:812', '{com.example.sample}', false),
            (2, 'billing', 'worker-1:812', '{com.example.orders}', false);
        INSERT INTO upstream.workers VALUES (
            gen_random_uuid(), 'worker-1:812', '0.1.0', '{receive,dispatch}', now() - interval '1 day', now(), false, 0,
            '[{"sender": "1234567890", "connecting": 0, "bound": 1, "draining": 0}]',
            '{"seconds": 5, "received": 0, "stored": 0, "duplicates": 0, "acked": 0, "handled": 0}',
            '[{"handler": "billing", "circuit": "open", "next_probe": 24, "paused": false, "running": 0, "waiting": 0,
                "attempts": 0, "failed": 0}]');
        INSERT INTO upstream.retention_policy (messages, dedupe_window, dead_letters, attempts, set_by, set_at)
        VALUES ('60 days', '65 days', '90 days', '7 days', 'upstream_worker', now() - interval '1 day');
        INSERT INTO upstream.deliveries (handler, message_key, received_at, attempts, next_attempt_at, last_error)
        SELECT CASE message_id WHEN 'chat-1' THEN 'legacy' WHEN 'held-1' THEN 'legacy' WHEN 'held-2' THEN 'legacy' ELSE 'billing' END, message_key,
            received_at, 2, now() + interval '1 hour',
            CASE message_id WHEN 'order-4760' THEN 'timeout' ELSE 'status 503 Service Unavailable' END
        FROM upstream.messages WHERE message_id IN ('order-4752', 'order-4760', 'chat-1', 'held-1', 'held-2');
        INSERT INTO upstream.attempt_batches (
            settled_at, handler, worker, outcome, first_received, last_received, keys, ages, durations, numbers,
            error_groups)
        SELECT now() - interval '1 minute' * (2 - n), 'billing', 'host:4711', CASE n WHEN 1 THEN 'retry' ELSE 'done' END,
            received_at, received_at, ARRAY[message_key], '{1}', '{0.0152}', ARRAY[n],
            CASE n WHEN 1 THEN ARRAY[CASE message_id WHEN 'order-4760' THEN 'timeout' ELSE 'webhook status 503' END] END
        FROM upstream.messages, generate_series(1, 2) AS n
        WHERE message_id = 'order-4711' OR (message_id IN ('order-4752', 'order-4760') AND n = 1);
        UPDATE upstream.attempt_batches SET numbers = '{2}' WHERE outcome = 'retry' AND keys[1] IN (
            SELECT message_key FROM upstream.messages WHERE message_id IN ('order-4752', 'order-4760'));
        INSERT INTO upstream.dead_letters (
            handler, message_key, received_at, attempts, next_attempt_at, lease_token, last_error, error_group)
        SELECT 'orders', message_key, received_at, 1, now(), 0, 'no such item', 'no such item' FROM upstream.messages
        WHERE message_id IN ('order-4752', 'old-1', 'old-3');
        INSERT INTO upstream.quarantine (
            sender_id, message_id, reason, detail, stanza, digest, times_seen, received_at, last_seen_at)
        VALUES
            ('1234567890', 'm-17', 'category_unusable', 'missing', convert_to(
                '<message id="" from="devices@gcm.googleapis.com"><gcm xmlns="google:mobile:data">{"message_id":"m-17",'
                || '"from":"token-SECRET-a","data":{"note":"' || chr(27) || '[2J' || chr(8238) || 'evil"}}</gcm></message>',
                'UTF8'), 'x', 1, now(), now()),
            ('1234567890', NULL, 'payload_not_json', '', 'stanza', 'y', 12, now(), now());
        INSERT INTO upstream.retention_runs
        VALUES (now() - interval '1 hour', now() - interval '1 hour', 'upstream_worker', 0, 0, 0, 0, 0);
        ANALYZE upstream.messages, upstream.message_ids
        """

    private static let replay = """
        INSERT INTO upstream.replays (
            name, kind, target, occupies, handlers, selection, options, state, reason, created_by, planned, lease_owner,
            lease_until, started_at, done)
        VALUES ('friday', 'handlers', 'handlers audit, orders', '{}', '{audit,orders}', '{"since":"2026-11-20T20:46:44.764054Z"}',
            '{"pace":{"rate":500}}', 'running', 'orders were refused', 'ops@ops1', 43610, 'worker ops1:23668',
            now() + interval '1 hour', now() - interval '1 minute', 4661);
        INSERT INTO upstream.replay_events (replay_id, event, who, done, detail)
        SELECT replay_id, 'paused', 'ops@ops1', 3535, 'lunch' FROM upstream.replays
        """
}
