import CCSEmulator
import Foundation
import IntegrationSupport
import QuerySupport

/// A real console and a real worker as processes, an emulated server that goes on sending, and a database with everything
/// that pages show, hostile texts included.
struct BrowserStage {
    /// Texts of strangers that must never become anything else than text.
    static let script = "<script>window.__ran=1</script>"
    static let image = "\"><img src=x onerror=window.__ran=1>"
    static let turned = "\u{202E}gpj.exe\u{202C}\u{200B}x"

    let folder: TemporaryFolder
    let database: QueryFixture
    let emulator: Emulator
    let worker: ChildWorker
    let console: ChildWorker
    /// The console's port on 127.0.0.1.
    let port: Int

    /// What opens the console, by role.
    static let tokens = [
        "operator": "FAKE-token-of-the-operator-for-tests-only", "viewer": "FAKE-token-of-the-viewer-for-tests-only",
    ]

    /// Who holds them.
    static let people = ["operator": "kim", "viewer": "ada"]

    /// Starts all of it.
    init() async throws {
        let folder = try TemporaryFolder()
        self.folder = folder
        let database = try await QueryFixture(Self.seeds)
        self.database = database
        try await database.script(Self.rows)
        var settings = EmulatorConfiguration()
        settings.credentials = .secrets(["1234567890": "FAKE-secret"])
        settings.load = LoadProfile(count: nil)
        settings.load.rate = 20
        settings.load.idPrefix = "live"
        settings.load.categories = [.init(name: "com.example.live", weight: 1)]
        emulator = try await Emulator.start(settings)
        let secret = try folder.write("FAKE-secret".utf8, as: "secret")
        let authority = try folder.write(emulator.authorityPEM ?? [], as: "ca.pem")
        let shared = """
            database: {url: "\(database.url)"}
            senders:
              - sender_id: "1234567890"
                host: 127.0.0.1
                port: \(emulator.port)
                domain: gcm.googleapis.com
                connections: 1
                secret_file: \(secret)
                tls: {ca_file: \(authority)}
            handlers:
              - {name: orders, categories: ["com.example.orders"], log: {}}
              - {name: failing, categories: [com.example.live], exec: {command: [/bin/sh, -c, read x]}, retry: {max_attempts: 1}}
            retention: {messages: 300d, dedupe_window: 300d}
            admin: {listen: "off"}
            shutdown: {grace: 3s}

            """
        worker = try ChildWorker(yaml: shared, in: folder)
        let files = try Self.tokens.map { role, token in
            let file = try folder.write(token.utf8, as: role)
            return
                "    - {file: \(file), role: \(role), name: \(Self.people[role] ?? ""), reveal: \(role == "operator")}"
        }
        let access = "console:\n  listen: 127.0.0.1:0\n  tokens:\n" + files.joined(separator: "\n") + "\n"
        console = try ChildWorker(yaml: shared + access, in: folder, command: ["console"])
        try await console.waitForEvent("console.listening")
        guard let port = try console.events("console.listening").first?["port"] as? Int else {
            throw WaitedTooLong(description: "no port in console.listening")
        }
        self.port = port
        try await waitUntil("the worker has stored messages and tells of itself") {
            let live = "SELECT count(*)::text FROM upstream.messages WHERE category = 'com.example.live'"
            let known = "SELECT count(*)::text FROM upstream.workers"
            let (stored, workers) = (try await database.text(live), try await database.text(known))
            return Int(stored ?? "0") ?? 0 > 120 && workers != "0"
        }
    }

    /// Ends what was started, in order.
    func stop() async throws {
        for process in [worker, console] {
            process.send(SIGTERM)
            _ = try await process.exitCode()
        }
        _ = await emulator.stop()
    }

    /// The key of a message of ``seeds``.
    func key(_ id: String) async throws -> String {
        try await database.text("SELECT message_key::text FROM upstream.messages WHERE message_id = '\(id)'") ?? ""
    }

    /// A device that sent messages just now.
    func device() async throws -> String {
        let latest = "WHERE category = 'com.example.live' ORDER BY received_at DESC LIMIT 1"
        return try await database.text("SELECT device_key::text FROM upstream.messages \(latest)") ?? ""
    }

    // MARK: What is there from the beginning

    private static var seeds: [Seed] {
        let deep = String(repeating: "[", count: 60) + String(repeating: "]", count: 60)
        let wide = "[" + (0..<20_000).map { "\"\($0) \(script)\"" }.joined(separator: ",") + "]"
        var seeds = (0..<30).map { number in
            Seed(
                id: "order-\(number)",
                token: "FAKE-token-\(number % 5)",
                data:
                    #"{"order":\#(number),"total":12.5,"note":"hello wörld","items":[{"sku":"A-\#(number)","count":2}]}"#,
                at: Int64(number) * 37_000_000
            )
        }
        seeds += [
            Seed(id: script, category: script, data: #"{"\#(script)":"</pre>\#(script)"}"#, at: 1),
            Seed(id: image, category: image, data: #"{"x":"\u0022><img src=x onerror=window.__ran=1>"}"#, at: 2),
            Seed(id: turned, category: turned, data: "{\"v\":\"\(turned)\"}", at: 3),
            Seed(id: "nul", data: nil, raw: #"{"v":"\u0000","n":1e200000}"#, at: 4),
            Seed(id: "deep", data: deep, at: 5), Seed(id: "wide", data: wide, at: 6),
        ]
        return seeds + Awkward.seeds
    }

    private static let rows = """
        INSERT INTO upstream.handlers (name, paused, paused_reason, paused_at, seen_at)
        VALUES ('billing', true, 'provider is down \(script)', now(), now());
        INSERT INTO upstream.subscriptions VALUES ('billing', 'com.example.chat');
        INSERT INTO upstream.dead_letters (handler, message_key, received_at, attempts, next_attempt_at, lease_token,
            last_error, error_group, died_at)
        SELECT 'billing', message_key, received_at, 20, now(), 1, 'answered 503 \(script)', 'webhook status 503 \(script)',
            now() - interval '1 hour' FROM upstream.messages WHERE message_id LIKE 'order-%';
        INSERT INTO upstream.dead_letters (handler, message_key, received_at, attempts, next_attempt_at, lease_token,
            last_error, error_group, died_at)
        SELECT 'orders', message_key, received_at, 3, now(), 1, 'exit status 2 \(turned)', 'exit status \(turned)',
            now() - interval '3 days' FROM upstream.messages WHERE message_id IN ('order-1', 'order-2', 'order-3');
        INSERT INTO upstream.deliveries (handler, message_key, received_at, attempts, next_attempt_at, last_error)
        SELECT 'orders', message_key, received_at, 2, now() + interval '1 day', 'refused \(script)'
        FROM upstream.messages WHERE message_id IN ('order-10', 'order-11', 'order-12');
        INSERT INTO upstream.deliveries (handler, message_key, received_at, attempts, next_attempt_at)
        SELECT 'billing', message_key, received_at, 2, now() + interval '1 day'
        FROM upstream.messages WHERE message_id IN ('order-13', 'order-14');
        INSERT INTO upstream.quarantine (sender_id, message_id, reason, detail, stanza, digest, times_seen, received_at,
            last_seen_at)
        VALUES ('1234567890', NULL, 'payload_not_json', 'byte 17 \(script)',
            convert_to('<message><gcm><![CDATA[{"from":"FAKE-token","x":"\(script)\(turned)"}]]></gcm><x a="', 'UTF8')
                || '\\x00ff1b' || convert_to('"/></message>', 'UTF8'),
            '\\x01', 12, now() - interval '2 hours', now());
        INSERT INTO upstream.conflicts (message_key, sender_id, message_id, registration_token, device_key, category, data,
            received_at, fingerprint, times_seen, last_seen_at)
        SELECT message_key, sender_id, message_id, registration_token, device_key, category,
            '{"order":5,"total":99.5,"note":"\(script)","items":[]}', received_at + interval '1 minute',
            '00000000-0000-4000-8000-000000000001', 2, now() FROM upstream.messages WHERE message_id = 'order-5';
        SELECT upstream.record_audit('kim \(turned)', 'command', 'dead.retry', 'handler \(script)', 17, 'because \(script)');
        ANALYZE;
        """

    /// What goes wrong for people on call: 10,000 letters of one group, more failures than yesterday, and what somebody
    /// discarded before others acted.
    static let troubles = """
        INSERT INTO upstream.dead_letters (handler, message_key, received_at, attempts, next_attempt_at, lease_token,
            last_error, error_group)
        SELECT 'billing', gen_random_uuid(), now() - n * interval '1 second', 20, now(), 1, 'no answer', 'provider is gone'
        FROM generate_series(1, 10001) AS n;
        SELECT upstream.ensure_samples(current_date - 3, current_date + 1);
        INSERT INTO upstream.samples (
            at, kind, subject, instance, received, stored, handled, failed, times, waiting, oldest, held)
        SELECT date_trunc('minute', now()) - n * interval '1 minute', 'store', '', gen_random_uuid(), 600, 600, 500,
            CASE WHEN n < 1320 THEN 500 ELSE 5 END, '{0,0,0,0,0,0,0,60,60}'::int[] || array_fill(0, ARRAY[8]), 5, 2.5, false
        FROM generate_series(10, 2870, 10) AS n;
        SELECT upstream.record_audit('ada', 'console', 'dead.discard',
            'dead letters, handler billing, group ''provider was slow''', 17, 'sent by hand');
        SELECT upstream.record_audit('kim', 'console', 'dead.retry', 'dead letters, handler orders', 1, 'again')
        FROM generate_series(1, 120);
        ANALYZE;
        """
}
