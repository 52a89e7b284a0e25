import CCSEmulator
import DatabaseSupport
import Foundation
import IntegrationSupport
import Postgres
import Testing

extension Integration {
    /// Retention, erasure and figures, as an operator meets them: the commands, and the worker's daily run.
    @Suite struct RetentionTests {
        private static let token = "APA91b:FAKE-token-to-forget"
        private static let old = "now() - interval '50 days'"

        /// A database with two old days, of which one still has a delivery, and a young message; all of one device.
        private func database() async throws -> Database {
            let database = try await Database()
            try await database.script(
                """
                SELECT upstream.ensure_partitions(current_date - 52, current_date - 49);
                INSERT INTO upstream.retention_policy
                VALUES ('30 days', '35 days', '90 days', '7 days', 'test', now() - interval '1 day');
                CREATE TEMP TABLE seed AS
                SELECT gen_random_uuid() AS key, now() - days * interval '1 day' AS at, days
                FROM unnest(ARRAY[50, 51, 0]) AS days;
                INSERT INTO upstream.message_ids SELECT key, gen_random_uuid(), at FROM seed;
                INSERT INTO upstream.messages (
                    message_key, sender_id, message_id, registration_token, device_key, category, data, received_at)
                SELECT key, '1234567890', 'm-' || days, '\(Self.token)',
                    left(encode(sha256('\(Self.token)'), 'hex'), 32)::uuid, 'com.example.orders', '{"a":1}', at
                FROM seed;
                INSERT INTO upstream.handlers (name) VALUES ('audit');
                INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at)
                SELECT 'audit', key, at, now() + interval '1 hour' FROM seed WHERE days = 51;
                INSERT INTO upstream.quarantine (
                    sender_id, reason, detail, stanza, digest, times_seen, received_at, last_seen_at)
                SELECT '1234567890', 'payload_not_json', '', '<message>\(Self.token)</message>', 'a', 1, now(), now()
                """
            )
            return database
        }

        private func configuration(_ database: Database, in folder: TemporaryFolder) throws -> String {
            try folder.write("database: {url: \"\(database.url)\"}\n".utf8, as: "config.yaml")
        }

        @Test("partitions: the plan, a dry run, a run that keeps what is needed, and force")
        func partitions() async throws {
            let database = try await database()
            let folder = try TemporaryFolder()
            let config = try configuration(database, in: folder)
            func run(_ arguments: String...) throws -> CommandRun {
                try CommandRun(["partitions"] + arguments + ["--config", config])
            }
            let plan = try run("plan", "--json")
            #expect(plan.status == 0)
            let partitions = try #require(try plan.object()["partitions"] as? [[String: Any]])
            let fates = Dictionary(grouping: partitions) { $0["fate"] as? String ?? "" }.mapValues(\.count)
            #expect(fates == ["drop": 3, "held": 1, "keep": 2, "ahead": 7])
            let table = try run("plan")
            #expect(table.output.contains("held for 1 delivery") && table.output.contains("keep until "))
            #expect(table.errors.contains("run would drop 3 partitions"))
            #expect(try run("run", "--dry-run").output == table.output)
            #expect(try await database.count("messages") == 3)

            let first = try run("run")
            #expect(first.status == 1 && first.errors.contains("kept for 1 delivery"), "\(first.errors)")
            #expect(try await database.count("messages") == 2)
            #expect(try await database.count("message_ids") == 2, "the ledger keeps what has a body")
            let refused = try run("run", "--force")
            #expect(refused.status == 64 && refused.errors.contains("--yes"))
            #expect(try await database.waitingDeliveries() == 1)
            let forced = try run("run", "--force", "--yes", "--json")
            #expect(forced.status == 0)
            #expect(try forced.object()["deliveries_given_up"] as? Int == 1)
            #expect(try await database.count("messages") == 1)
            #expect(try run("run").status == 0)
        }

        @Test("a day that can't be dropped, for a view reads it, keeps no other, nor the rest, and the run is not done")
        func undroppable() async throws {
            let database = try await database()
            let folder = try TemporaryFolder()
            let config = try configuration(database, in: folder)
            try await database.script(
                """
                DO $$ BEGIN EXECUTE format('CREATE VIEW report AS SELECT message_id FROM %s', (
                    SELECT relation::regclass FROM upstream.partitions() ORDER BY since LIMIT 1
                )); END $$;
                UPDATE upstream.quarantine SET received_at = \(Self.old), last_seen_at = \(Self.old)
                """
            )
            let first = try CommandRun(["partitions", "run", "--config", config])
            #expect(first.status != 0 && first.errors.contains("other objects depend on it"), "\(first.errors)")
            let left = "SELECT count(*) FROM upstream.partitions() WHERE until < now() - interval '40 days'"
            // Of four, the day of the view and the one that a delivery needs.
            #expect(try await database.integer(left) == 2)
            #expect(try await database.count("quarantine") == 0)
            #expect(try await database.count("retention_runs") == 0)
            try await database.script("DROP VIEW report")
            #expect(try CommandRun(["partitions", "run", "--config", config]).status == 1)
            #expect(try await database.integer(left) == 1)
            #expect(try await database.count("retention_runs") == 1)
        }

        @Test("partitions run while another is at it is a temporary failure")
        func busy() async throws {
            let database = try await database()
            let folder = try TemporaryFolder()
            let config = try configuration(database, in: folder)
            let session = try await PostgresConnection.open(PostgresSettings(url: database.url))
            try await session.run { connection throws(PostgresError) in
                try connection.script("BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('upstream.retention', 0))")
            }
            let run = try CommandRun(["partitions", "run", "--config", config])
            #expect(run.status == 75 && run.errors.contains("a worker is running retention"))
            await session.close()
        }

        /// What lets a program believe in another time.
        static func faked(_ offset: String) throws -> [String: String] {
            let library = ["x86_64", "aarch64"].map { "/usr/lib/\($0)-linux-gnu/faketime/libfaketime.so.1" }
                .first { FileManager.default.fileExists(atPath: $0) }
            return [
                "LD_PRELOAD": try #require(library, "scripts/install-test-tools installs faketime"), "FAKETIME": offset,
                "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_DONT_RESET": "1",
            ]
        }

        @Test(
            "partitions run on a machine with a wrong clock says so and deletes nothing",
            arguments: ["+30d", "-3d", "+6m"]
        )
        func wrongClock(offset: String) async throws {
            let database = try await database()
            let folder = try TemporaryFolder()
            let config = try configuration(database, in: folder)
            let environment = try Self.faked(offset)
            let run = try CommandRun(["partitions", "run", "--force", "--yes", "--config", config], environment)
            #expect(run.status == 78 && run.errors.contains("this machine's clock is "), "\(run.errors)")
            #expect(try await database.count("messages") == 3)
            let plan = try CommandRun(["partitions", "plan", "--config", config], environment)
            #expect(plan.status == 0 && plan.errors.contains("deletes nothing until"))
            // By the database's clock, whatever the machine's: the same days.
            let right = try CommandRun(["partitions", "plan", "--config", config])
            #expect(plan.output == right.output)
        }

        @Test("a worker whose clock is a month ahead drops nothing, and one whose clock is right does")
        func aheadWorker() async throws {
            let database = try await database()
            let folder = try TemporaryFolder()
            // Twenty days old: too old for a clock that is a month ahead.
            try await database.script(
                """
                SELECT upstream.ensure_partitions(current_date - 20, current_date - 20);
                INSERT INTO upstream.messages (
                    message_key, sender_id, message_id, registration_token, device_key, category, received_at)
                SELECT gen_random_uuid(), '1', 'm-20', 't', gen_random_uuid(), 'c', now() - interval '20 days'
                """
            )
            let yaml = "database: {url: \"\(database.url)\"}\nadmin: {listen: off}\nlog: {format: json}\n"
            let ahead = try ChildWorker(yaml: yaml, in: folder, ["--roles", "dispatch"], Self.faked("+30d"))
            try await ahead.waitForEvent("clock.differs")
            #expect(try ahead.events("retention.done").isEmpty)
            ahead.send(SIGTERM)
            #expect(try await ahead.exitCode() == 0)
            #expect(try await database.count("messages") == 4)
            let right = try ChildWorker(yaml: yaml, in: folder, ["--roles", "dispatch"])
            try await right.waitForEvent("retention.done")
            right.send(SIGTERM)
            #expect(try await right.exitCode() == 0)
            #expect(try await database.count("messages") == 3)
        }

        @Test(
            "of two workers with different files the longer one holds, whichever starts first",
            arguments: [true, false]
        )
        func twoFiles(longerFirst: Bool) async throws {
            let database = try await database()
            try await database.script("DELETE FROM upstream.retention_policy")
            let folder = try TemporaryFolder()
            let usual = "database: {url: \"\(database.url)\"}\nadmin: {listen: off}\nlog: {format: json}\n"
            let longer = usual + "retention: {messages: 60d, dedupe_window: 65d}\n"
            let first = try ChildWorker(yaml: longerFirst ? longer : usual, in: folder, ["--roles", "dispatch"])
            // The first policy is too young to delete by.
            try await first.waitForEvent("retention.waits")
            let second = try ChildWorker(yaml: longerFirst ? usual : longer, in: folder, ["--roles", "dispatch"])
            try await second.waitForEvent(longerFirst ? "retention.policy_differs" : "retention.policy_raised")
            try await second.waitForEvent("retention.waits")
            for worker in [first, second] {
                worker.send(SIGTERM)
                #expect(try await worker.exitCode() == 0)
            }
            // A day later, one with the defaults starts again.
            try await database.script("UPDATE upstream.retention_policy SET set_at = now() - interval '1 day'")
            let third = try ChildWorker(yaml: usual, in: folder, ["--roles", "dispatch"])
            try await third.waitForEvent("retention.policy_differs", count: 2)
            try await waitUntil("retention has run") { try await database.count("retention_runs") == 1 }
            #expect(
                try third.events("retention.policy_differs").compactMap { $0["key"] as? String }
                    == ["retention.messages", "retention.dedupe_window"]
            )
            third.send(SIGTERM)
            #expect(try await third.exitCode() == 0)
            #expect(try await database.count("messages") == 3)
            #expect(
                try await database.texts(
                    "SELECT concat_ws(' ', messages, dedupe_window, dead_letters) FROM upstream.retention_policy"
                ) == ["60 days 65 days 90 days"]
            )
        }

        @Test("partitions policy: shows both, asks before it makes anything shorter, and is the owner's")
        func policy() async throws {
            let database = try await database()
            let folder = try TemporaryFolder()
            let config = try folder.write(
                "database: {url: \"\(database.url)\"}\nretention: {messages: 20d, dead_letters: 36h}\n".utf8,
                as: "config.yaml"
            )
            func run(_ arguments: String...) throws -> CommandRun {
                try CommandRun(["partitions", "policy", "--config", config] + arguments)
            }
            let shown = try run()
            #expect(shown.status == 0 && shown.errors.contains("set by test"), "\(shown.errors)")
            #expect(
                shown.output == """
                    KEY                      CONFIGURED  IN FORCE
                    retention.messages       20d         30d
                    retention.dedupe_window  35d         35d
                    retention.dead_letters   36h         90d
                    retention.attempts       7d          7d

                    """
            )
            let document = try run("--json").object()
            #expect((document["applying_drops"] as? [String: Any])?["partitions"] as? Int == 3)
            #expect((document["in_force"] as? [String: Any])?["attempts"] as? String == "7d")
            let unasked = try run("--apply")
            #expect(unasked.status == 64 && unasked.errors.contains("--yes"))
            #expect(try await database.texts("SELECT messages::text FROM upstream.retention_policy") == ["30 days"])
            let applied = try run("--apply", "--yes")
            #expect(applied.status == 0 && applied.errors.contains("the policy is set"), "\(applied.errors)")
            #expect(
                try await database.texts(
                    "SELECT concat_ws(' ', messages, dedupe_window, dead_letters, attempts) FROM upstream.retention_policy"
                ) == ["20 days 35 days 1 day 12:00:00 7 days"]
            )
            #expect(try run("--apply").errors.contains("the policy is what the configuration says"))
            try await database.script("DELETE FROM upstream.retention_policy")
            #expect(try run().output.contains("20d         -"))
            let refused = try CommandRun(["partitions", "run", "--config", config])
            #expect(refused.status == 75 && refused.errors.contains("no retention policy"))
            #expect(try await database.count("messages") == 3)
        }

        @Test("forget: refuses what it can't read, asks, counts, erases, and shows no token")
        func forget() async throws {
            let database = try await database()
            let folder = try TemporaryFolder()
            let config = try configuration(database, in: folder)
            func run(_ text: String?, _ arguments: String...) throws -> CommandRun {
                let file = try text.map { try folder.write($0.utf8, as: "token") } ?? "/nowhere/token"
                let run = try CommandRun(["forget", "--token-file", file, "--config", config] + arguments)
                #expect(!run.output.contains("FAKE") && !run.errors.contains("FAKE"))
                return run
            }
            #expect(try run(nil).status == 66)
            #expect(try run("\n").status == 65)
            #expect(try run("a\nb\n").status == 65)
            let unasked = try run(Self.token + "\n")
            #expect(unasked.status == 64 && unasked.errors.contains("--yes"))
            let dry = try run(Self.token, "--dry-run", "--json")
            #expect(try dry.object()["messages"] as? Int == 3)
            #expect(try dry.object()["deliveries"] as? Int == 1)
            #expect(try dry.object()["quarantine"] as? Int == 1)
            #expect(try await database.count("messages") == 3)
            let done = try run(Self.token + "\n", "--yes")
            #expect(done.status == 0 && done.output.contains("ERASED"))
            for table in ["messages", "deliveries", "quarantine"] { #expect(try await database.count(table) == 0) }
            #expect(try await database.count("message_ids") == 3)
            let again = try run(Self.token, "--yes", "--json")
            #expect(again.status == 0)
            #expect(try again.object()["messages"] as? Int == 0)
        }

        @Test("stats: figures for people and programs")
        func stats() async throws {
            let database = try await database()
            let folder = try TemporaryFolder()
            let config = try configuration(database, in: folder)
            try await database.script("ANALYZE")
            let json = try CommandRun(["stats", "100ms", "--json", "--config", config])
            let object = try json.object()
            let tables = try #require(object["tables"] as? [[String: Any]])
            let messages = try #require(tables.first { $0["table"] as? String == "messages" })
            #expect(messages["rows_estimate"] as? Int == 3)
            #expect((object["handlers"] as? [[String: Any]])?.first?["waiting"] as? Int == 1)
            #expect(object["rates_per_second"] != nil)
            let text = try CommandRun(["stats", "100ms", "--config", config])
            #expect(text.status == 0 && text.output.contains("~3") && text.output.contains("audit"))
        }

        @Test("a worker with the least role receives, handles, and lets go what is too old")
        func worker() async throws {
            let database = try await database()
            try await database.script(try DeployedRoles.scriptWithLogins())
            try await Stage.run(on: database) {
                $0.load = LoadProfile(count: 300)
                $0.faults = try FaultScript(parsing: "every 50: duplicate")
            } _: { stage in
                var options = WorkerOptions()
                options.database = database.url.replacingOccurrences(of: "user=upstream", with: "user=w")
                let yaml = try stage.yaml(options) + "handlers: [{name: audit, categories: [\"*\"], log: {}}]\n"
                let worker = try LocalWorker(yaml: yaml)
                try await stage.waitUntilComplete()
                try await waitUntil("retention has run") {
                    worker.logs.lines.contains { $0.contains("retention.done") }
                }
                try await waitUntil("the new messages are handled") { try await database.waitingDeliveries() == 1 }
                try await worker.stop()
                let log = worker.logs.lines.joined()
                // The state as its field: its five digits alone also stand in times and counts.
                let refused = worker.logs.lines.filter { $0.contains("\"42501\"") || $0.contains("permission") }
                #expect(refused.isEmpty)
                #expect(log.contains("database.partitions_dropped") && log.contains("retention.held"))
                #expect(try await database.count("messages WHERE received_at < \(Self.old)") == 1)
                #expect(try await database.count("messages") == 302)
            }
        }
    }
}

/// One run of the program to its end.
struct CommandRun {
    var status: Int32
    var output: String
    var errors: String

    /// Runs a command with a terminal for all its streams.
    init(onTerminal arguments: [String]) throws {
        let line = ([try ChildWorker.program().path] + arguments).map { "'\($0)'" }.joined(separator: " ")
        try self.init(running: URL(filePath: "/usr/bin/script"), ["-qec", line, "/dev/null"])
    }

    init(_ arguments: [String], _ environment: [String: String] = [:]) throws {
        let program = try ChildWorker.program()
        let words = (environment.isEmpty ? [] : [program.path]) + arguments
        try self.init(running: environment.isEmpty ? program : ChildWorker.env, words, environment)
    }

    private init(running program: URL, _ arguments: [String], _ environment: [String: String] = [:]) throws {
        let process = Process()
        process.executableURL = program
        process.arguments = arguments
        process.environment = ["PATH": "/usr/bin:/bin", "LC_ALL": "C"].merging(environment) { $1 }
        let (output, errors) = (Pipe(), Pipe())
        process.standardOutput = output
        process.standardError = errors
        process.standardInput = FileHandle.nullDevice
        try process.run()
        self.output = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        self.errors = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        status = process.terminationStatus
    }

    /// The output as one JSON object.
    func object() throws -> [String: Any] {
        try #require(try JSONSerialization.jsonObject(with: Data(output.utf8)) as? [String: Any])
    }
}
