import Foundation
import IntegrationSupport
import Postgres
import QuerySupport
import Testing

/// What commands show to people: times and colours.
@Suite("times and colours", .timeLimit(.minutes(10)))
struct PresentationTests {
    /// A system with something of every kind: waiting, dead, quarantined and replayed messages, a silent worker.
    private func stage() async throws -> (stage: CommandStage, key: String) {
        let stage = try await CommandStage((0..<4).map { Seed(id: "m\($0)", at: Int64($0) * 123_456) })
        try await stage.fixture.script(
            """
            INSERT INTO upstream.handlers (name, registered_at, seen_at, paused, paused_until)
            VALUES ('billing', now() - interval '1 day', now() - interval '1 day', false, NULL),
                ('audit', '2026-02-01', now(), true, now() + interval '1 hour');
            INSERT INTO upstream.subscriptions VALUES ('audit', '*');
            INSERT INTO upstream.deliveries (handler, message_key, received_at, attempts, next_attempt_at, last_error)
            SELECT 'billing', message_key, received_at, 2, now() - interval '63 seconds', 'status 503'
            FROM upstream.messages WHERE message_id <> 'm0';
            INSERT INTO upstream.dead_letters
                (handler, message_key, received_at, attempts, next_attempt_at, lease_token, last_error, error_group)
            SELECT 'billing', message_key, received_at, 5, now(), 0, 'status 503', 'webhook status 503'
            FROM upstream.messages WHERE message_id = 'm0';
            INSERT INTO upstream.attempt_batches (
                settled_at, handler, worker, outcome, first_received, last_received, keys, ages, durations, numbers,
                error_groups)
            SELECT now(), 'billing', 'host:1', 'retry', min(received_at), max(received_at),
                array_agg(message_key ORDER BY received_at), array_agg(1::real), array_agg(0.0152::real), array_agg(2),
                array_agg('webhook status 503'::text)
            FROM upstream.messages;
            INSERT INTO upstream.quarantine
                (sender_id, reason, detail, stanza, digest, times_seen, received_at, last_seen_at)
            VALUES ('1', 'payload_not_json', 'x', '<m/>', sha256('x'), 1, now(), now());
            """
        )
        let plan = try await stage.run(["replay", "plan", "first", "--handler", "audit", "--include-succeeded"])
        #expect(plan.status == 0, "\(plan.errors)")
        return (stage, try await stage.key("m0"))
    }

    /// Commands that show times to people.
    private static func commands(_ key: String) -> [[String]] {
        [
            ["messages", "list"], ["messages", "show", key], ["handlers", "list"], ["deliveries", "list"],
            ["dead", "list"], ["dead", "show", key], ["dead", "groups"], ["quarantine", "list"],
            ["quarantine", "show", "1"],
            ["replay", "status"], ["replay", "status", "first"],
            ["replay", "plan", "second", "--handler", "audit", "--include-succeeded", "--dry-run"], ["stats"],
            ["doctor"],
            ["migrate", "status"], ["partitions", "plan"], ["partitions", "policy"],
            ["handlers", "pause", "billing", "--for", "1h"],
        ]
    }

    @Test("every time that people read has one form, to the second; lengths of time have a space before the unit")
    func times() async throws {
        let (stage, key) = try await stage()
        var moments = 0
        for command in Self.commands(key) {
            let run = try await stage.run(command, columns: 240)
            #expect([0, 1].contains(run.status), "\(command): \(run.errors)")
            let text = run.output + run.errors
            // A filter is shown as it is given back.
            for line in text.split(separator: "\n") where !line.contains("since") || !line.contains("{") {
                #expect(
                    !line.contains(/\d\d-\d\dT\d\d:/) && !line.contains(/\d\d:\d\d:\d\d\.\d/),
                    "\(command): \(line)"
                )
                #expect(!line.contains(/\d\d:\d\d:\d\d([^Z\d]|$)/), "\(command): \(line)")
                #expect(
                    !line.contains(/(^|\s)\d+(\.\d+)?(ms|s|min|h)(\s|$)/) || command[0] == "partitions",
                    "\(command): \(line)"
                )
            }
            moments += text.matches(of: /\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ/).count
        }
        #expect(moments > 30)
        #expect(try await stage.run(["messages", "show", key], columns: 240).output.contains("Z 15.2 ms on host:1"))
        #expect(try await stage.run(["handlers", "list"], columns: 240).output.contains(#/ \d+ d /#))
        // Programs get all digits.
        let json = try await stage.run(["messages", "show", key, "--json"])
        #expect(json.output.contains(/"received_at":"[0-9-]+T[0-9:]+\.\d{6}Z"/))
    }

    @Test("severities and states have a colour on a terminal, and none with NO_COLOR or where stdout is no terminal")
    func colours() async throws {
        let (stage, key) = try await stage()
        for (command, part) in [
            (["doctor"], "\u{1B}[31mcritical\u{1B}[0m  "), (["handlers", "list"], "\u{1B}[33mpaused until "),
            (["deliveries", "list"], "\u{1B}[33munclaimed\u{1B}[0m"), (["audit"], "\u{1B}[32mok\u{1B}[0m"),
            (["messages", "show", key], "\u{1B}[33m2. retry\u{1B}[0m"),
        ] {
            let run = try await stage.run(command, columns: 200, colours: [:])
            #expect(run.output.contains(part), "\(command): \(run.output)")
            for (columns, variables) in [(200, ["NO_COLOR": "1"]), (nil, [:])] as [(Int?, [String: String])] {
                let plain = try await stage.run(command, columns: columns, colours: variables)
                #expect(!plain.output.contains("\u{1B}"), "\(command): \(plain.output)")
                guard columns != nil else { continue }
                // Colours change no column's place.
                let bare = run.output.replacing(/\u{1B}\[[0-9]+m/, with: "")
                #expect(bare.split(separator: "\n").count == plain.output.split(separator: "\n").count)
            }
            #expect(try await stage.run(command, columns: 200, colours: ["NO_COLOR": ""]).output.contains(part))
        }
        let secret = try stage.folder.write("secret\n".utf8, as: "key")
        let sender = """
            database: {url: "\(stage.fixture.url)"}
            senders: [{sender_id: "1", host: 127.0.0.1, port: 1, secret_file: \(secret)}]

            """
        let path = try stage.folder.write(sender.utf8, as: "sender.yaml")
        let check = try await stage.run(["check", "--connect", "--config", path], columns: 200, colours: [:])
        for mark in ["\u{1B}[32mok      \u{1B}[0mdatabase: ", "\u{1B}[31mFAILED  \u{1B}[0msender 1"] {
            #expect(check.output.contains(mark), "\(check.output)\(check.errors)")
        }
    }

    @Test(
        "more conditions than the console takes are refused, before anything is asked of the database",
        arguments: [
            ["messages", "list"], ["messages", "export"], ["conflicts", "list"], ["replay", "plan", "--to-handlers"],
        ]
    )
    func bounds(_ command: [String]) async throws {
        let stage = try await CommandStage()
        let down = try stage.folder.write("database: {url: 'host=/nowhere dbname=upstream'}\n".utf8, as: "down.yaml")
        func run(_ options: [String]) async throws -> CommandRun {
            try await stage.run(command + options + ["--config", down])
        }
        func clauses(_ count: Int) -> [String] { (0..<count).flatMap { ["--where", "data.a=\($0)"] } }
        let many = try await run(clauses(101))
        #expect(
            many.status == 64 && many.errors.contains("'--where' is given 101 times; at most 100"),
            "\(many.errors)"
        )
        let both = try await run(clauses(60) + (0..<41).flatMap { ["--category", "c\($0)"] })
        #expect(both.status == 64 && both.errors.contains("have 101 values"), "\(both.errors)")
        let long = try await run(["--where", "data.a=" + String(repeating: "x", count: 4_096)])
        #expect(long.status == 64 && long.errors.contains("longer than 4096 bytes"), "\(long.errors)")
        #expect(try await run(clauses(100)).status == 69)
    }

    @Test(
        "behind a pooler, too, a command's statements run under its own limits, whatever the database sets",
        arguments: [
            ["replay", "plan", "--handler", "audit", "--include-succeeded", "--dry-run"], ["messages", "list"],
            ["deliveries", "list"],
        ]
    )
    func pooled(_ command: [String]) async throws {
        let (stage, _) = try await stage()
        try await stage.fixture.script(
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET lock_timeout = 1', current_database()); END $$"
        )
        let folder = URL(filePath: "/tmp/upstream-pooled-\(getpid())-\(UInt32.random(in: 0...UInt32.max))")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let sockets =
            try #require(stage.fixture.url.split(separator: "host=").last?.split(separator: "&").first)
            .removingPercentEncoding ?? ""
        let pooler = try startPgbouncer(
            """
            [databases]
            * = user=upstream host=\(sockets)
            [pgbouncer]
            listen_addr =
            unix_socket_dir = \(folder.path)
            listen_port = 6432
            pool_mode = transaction
            auth_type = any
            logfile = \(folder.path)/log
            """,
            in: folder
        )
        defer {
            kill(pooler.processIdentifier, SIGKILL)
            pooler.waitUntilExit()
            try? FileManager.default.removeItem(at: folder)
        }
        let url = stage.fixture.url.replacing(sockets, with: folder.path) + "&port=6432"
        let path = try stage.folder.write("database: {url: \"\(url)\"}\n".utf8, as: "pooled.yaml")
        try await waitUntil("the pooler takes connections") {
            try await stage.run(["stats", "--config", path]).status == 0
        }
        try await stage.fixture.script(
            "BEGIN; LOCK TABLE upstream.messages, upstream.handlers, upstream.deliveries IN ACCESS EXCLUSIVE MODE"
        )
        async let run = stage.run(command + ["--config", path])
        try await waitUntil("it waits for the lock") {
            // On another session: within a transaction the view stands still.
            try await stage.fixture.reader.run { connection throws(PostgresError) in
                try connection.query(
                    """
                    SELECT count(*) FROM pg_stat_activity
                    WHERE datname = current_database() AND wait_event_type = 'Lock'
                    """
                ).value(Int64.self)
            } > 0
        }
        try await stage.fixture.script("COMMIT")
        let ended = try await run
        #expect(ended.status == 0, "\(ended.errors)")
    }
}
