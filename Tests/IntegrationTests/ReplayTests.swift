import CCSEmulator
import EmulatorSupport
import Foundation
import IntegrationSupport
import Testing

extension Integration {
    /// Replays by the program itself, killed at random points.
    @Suite struct ReplayTests {
        @Test("to handlers: workers are killed twelve times, and the handler has exactly what was planned, each once")
        func handlers() async throws {
            let database = try await Database()
            let folder = try TemporaryFolder()
            try await database.seed(6_000)
            try await database.script(
                """
                CREATE TABLE public.taken (message_key uuid PRIMARY KEY, times integer NOT NULL);
                CREATE FUNCTION public.take(message upstream.messages) RETURNS void LANGUAGE sql AS $$
                    INSERT INTO public.taken VALUES (message.message_key, 1)
                    ON CONFLICT (message_key) DO UPDATE SET times = taken.times + 1
                $$;
                """
            )
            let yaml = """
                database: {url: "\(database.url)"}
                handlers:
                  - {name: take, categories: ["*"], sql: {function: public.take}}
                dispatch: {lease: 1s}
                admin: {listen: "off"}
                log: {format: json}

                """
            func worker() throws -> ChildWorker {
                try ChildWorker(yaml: yaml, in: folder, ["--roles", "dispatch"])
            }
            var current = try worker()
            try await waitUntil("the handler is registered") { try await database.count("handlers") == 1 }
            let plan = ["replay", "plan", "again", "--handler", "take", "--category", "com.example.orders"]
            try await run(yaml, folder, plan)
            // What comes later is not part of it.
            try await database.seed(500, startingAt: 10_001)
            try await run(yaml, folder, ["replay", "start", "again", "--rate", "800/s"])
            func takes() async throws -> Int {
                try await database.integer("SELECT count(*) FROM upstream.replay_events WHERE event = 'taken'")
            }
            for kill in 1...12 {
                // Else this kill might hit a worker that has nothing to do with it yet.
                try await waitUntil("a worker runs it") { try await takes() >= kill }
                let place = Int.random(in: (kill - 1) * 150...kill * 150)
                try await waitUntil("the replay comes to \(place)") {
                    try await database.integer("SELECT done FROM upstream.replays") >= place
                }
                current.send(SIGKILL)
                _ = try await current.exitCode()
                current = try worker()
            }
            try await waitUntil("the replay's end", limit: .seconds(120)) {
                try await database.texts("SELECT state FROM upstream.replays") == ["finished"]
            }
            try await waitUntil("everything is handled") { try await database.waitingDeliveries() == 0 }
            let planned = try await database.integer("SELECT planned FROM upstream.replays")
            #expect(planned == 2_000)
            #expect(try await database.integer("SELECT count(*) FROM public.taken") == planned)
            let others = """
                SELECT count(*) FROM public.taken JOIN upstream.messages USING (message_key)
                WHERE category <> 'com.example.orders' OR message_id::text > 'n' OR times <> 1
                """
            #expect(try await database.integer(others) == 0)
            #expect(try await takes() >= 12, "the kills hit while it ran")
            current.send(SIGTERM)
            #expect(try await current.exitCode() == 0)
        }

        /// An emulator to replay to, so many messages in a database of their own, and the commands that plan and start.
        private func withEndpoint(
            _ count: Int,
            _ body: (_ stage: Stage, _ source: Database, _ plan: [String], _ start: [String]) async throws -> Void
        ) async throws {
            let source = try await Database()
            try await source.seed(count)
            try await Stage.run {
                $0.load = LoadProfile(count: 0)
            } _: { stage in
                let secret = try stage.folder.write(Stage.secret.utf8, as: "replay-key")
                let authority = try stage.folder.write(stage.emulator.authorityPEM ?? [], as: "replay-ca.pem")
                try await body(
                    stage,
                    source,
                    [
                        "replay", "plan", "copy", "--to", "127.0.0.1:\(stage.emulator.port)", "--account",
                        "\(Stage.sender)@gcm.googleapis.com",
                    ],
                    ["replay", "start", "copy", "--secret-file", secret, "--ca-file", authority, "--lease", "1s"]
                )
            }
        }

        @Test("to an XMPP endpoint: killed twelve times, the worker there has every message exactly once")
        func endpoint() async throws {
            try await withEndpoint(3_000) { stage, source, plan, start in
                let worker = try ChildWorker(yaml: try stage.yaml(WorkerOptions()), in: stage.folder)
                try await stage.wait(for: "the worker") { $0.bound.count == 2 }
                let yaml = "database: {url: \"\(source.url)\"}\nadmin: {listen: \"off\"}\n"
                try await run(yaml, stage.folder, plan)
                let start = start + ["--rate", "700/s"]
                let before = try await source.digest()
                for kill in 1...12 {
                    let runner = try ChildWorker(yaml: yaml, in: stage.folder, command: start)
                    let place = Int.random(in: (kill - 1) * 200 + 1...kill * 200)
                    try await waitUntil("\(place) messages have come") {
                        try await stage.database.count("messages") >= place
                    }
                    runner.send(SIGKILL)
                    _ = try await runner.exitCode()
                }
                // The last run loses its connection three times, and sends again what was not acked.
                let last = try ChildWorker(yaml: yaml, in: stage.folder, command: start)
                for place in [2_500, 2_650, 2_800] {
                    try await waitUntil("\(place) messages have come") {
                        try await stage.database.count("messages") >= place
                    }
                    let connections = try await stage.emulator.snapshot().bound.map(\.number).sorted()
                    if connections.count == 3 { try await stage.emulator.kill(connections[2], reset: true) }
                }
                #expect(try await last.exitCode() == 0)
                #expect(try await stage.database.count("messages") == 3_000)
                #expect(try await stage.database.count("message_ids") == 3_000)
                #expect(try await stage.database.count("conflicts") == 0)
                #expect(try await stage.database.count("quarantine") == 0)
                let content = "message_id, registration_token, device_key, category, data::text, extra"
                let dump = """
                    SELECT md5(string_agg(t::text, '|' ORDER BY message_id))
                    FROM (SELECT \(content) FROM upstream.messages) AS t
                    """
                #expect(try await stage.database.texts(dump) == source.texts(dump))
                #expect(try await source.digest() == before, "a replay changes no message")
                let tally = await stage.emulator.tally()
                #expect(tally.isClean, "\(tally.summary)")
                #expect(tally.relayed >= 3_000)
                worker.send(SIGTERM)
                #expect(try await worker.exitCode() == 0)
            }
        }

        @Test("what is sent and not acked is not done, and no more than the window is sent")
        func unacked() async throws {
            try await withEndpoint(500) { stage, source, plan, start in
                let yaml = "database: {url: \"\(source.url)\"}\nadmin: {listen: \"off\"}\n"
                try await run(yaml, stage.folder, plan + ["--concurrency", "40"])
                let runner = try ChildWorker(yaml: yaml, in: stage.folder, command: start)
                // Nobody is there who would ack.
                try await stage.wait(for: "a full window") { $0.tally.relayed >= 40 }
                let lease = "SELECT (extract(epoch FROM lease_until) * 1000)::bigint FROM upstream.replays"
                let first = try await source.integer(lease)
                try await waitUntil("several checkpoints") { try await source.integer(lease) > first + 1_500 }
                #expect(try await source.integer("SELECT done FROM upstream.replays") == 0)
                #expect(await stage.emulator.tally().relayed == 40)
                // SIGTERM pauses it, and it goes on once a worker is there.
                runner.send(SIGTERM)
                #expect(try await runner.exitCode() == 75)
                #expect(try await source.texts("SELECT state FROM upstream.replays") == ["paused"])
                try await stage.withWorker { _ in
                    try await run(yaml, stage.folder, start)
                    #expect(try await stage.database.count("messages") == 500)
                }
            }
        }

        @Test("through a standard server: the worker of the same account has every message once")
        func standardServer() async throws {
            let source = try await Database()
            try await source.seed(300)
            try await Prosody.run { server, _, database in
                let account = "\(Prosody.worker)@\(Prosody.domain)"
                let worker = try ChildWorker(
                    yaml: try server.yaml(database).replacing("\(Prosody.peer)@\(Prosody.domain)", with: account),
                    in: server.scratch
                )
                try await worker.waitForEvent("stream.bound")
                let yaml = "database: {url: \"\(source.url)\"}\nadmin: {listen: \"off\"}\n"
                let target = ["--to", "127.0.0.1:\(server.ports.direct)", "--account", account]
                try await run(yaml, server.scratch, ["replay", "plan", "copy"] + target)
                let secret = try server.scratch.write(Prosody.secret.utf8, as: "replay-key")
                let way = [
                    "--secret-file", secret, "--ca-file", server.authorityFile, "--server-name", Prosody.domain,
                    "--username", "localpart",
                ]
                try await run(yaml, server.scratch, ["replay", "start", "copy"] + way)
                #expect(try await database.count("messages") == 300)
                #expect(try await database.count("conflicts") + database.count("quarantine") == 0)
                worker.send(SIGTERM)
                #expect(try await worker.exitCode() == 0)
            }
        }

        @Test("to a file: killed ten times, it holds each message once, in order")
        func file() async throws {
            let database = try await Database()
            let folder = try TemporaryFolder()
            try await database.seed(4_000)
            let yaml = "database: {url: \"\(database.url)\"}\nadmin: {listen: \"off\"}\n"
            let output = folder.url.appending(path: "out.ndjson").path
            try await run(yaml, folder, ["replay", "plan", "file", "--output", output])
            let start = ["replay", "start", "file", "--rate", "2000/s", "--lease", "1s"]
            for kill in 1...10 {
                let runner = try ChildWorker(yaml: yaml, in: folder, command: start)
                let place = Int.random(in: (kill - 1) * 300 + 1...kill * 300)
                try await waitUntil("\(place) messages are written") {
                    try await database.integer("SELECT done FROM upstream.replays") >= place
                }
                runner.send(SIGKILL)
                _ = try await runner.exitCode()
                #expect(!FileManager.default.fileExists(atPath: output))
            }
            try await run(yaml, folder, start)
            let lines = try String(contentsOfFile: output, encoding: .utf8).split(separator: "\n")
            let keys = try await database.texts(
                "SELECT message_key::text FROM upstream.messages ORDER BY received_at, message_key"
            )
            #expect(lines.map { String($0.dropFirst(16).prefix(36)) } == keys)
            // Done is done.
            try await run(yaml, folder, start)
            #expect(try String(contentsOfFile: output, encoding: .utf8).split(separator: "\n").count == 4_000)
        }

        @Test("what can't be done is refused with its exit code")
        func refusals() async throws {
            let database = try await Database()
            let folder = try TemporaryFolder()
            let yaml = "database: {url: \"\(database.url)\"}\nadmin: {listen: \"off\"}\n"
            try await run(yaml, folder, ["replay", "plan", "none", "--output", "/tmp/never"], exits: 1)
            try await database.seed(10)
            try await run(yaml, folder, ["replay", "plan", "p"], exits: 64)
            try await run(yaml, folder, ["replay", "plan", "p", "--to-handlers", "--output", "x"], exits: 64)
            try await run(yaml, folder, ["replay", "plan", "p", "--output", "x", "--only-failed"], exits: 64)
            try await run(yaml, folder, ["replay", "plan", "p", "--to", "127.0.0.1:1"], exits: 64)
            try await run(yaml, folder, ["replay", "plan", "p", "--to-handlers"], exits: 1)
            try await run(yaml, folder, ["replay", "start", "nobody"], exits: 1)
            try await run(yaml, folder, ["replay", "import", "/no/such/file"], exits: 66)
            // Nobody listens there: the replay fails, and may be started again.
            let account = ["--account", "1@d.test"]
            try await run(yaml, folder, ["replay", "plan", "down", "--to", "127.0.0.1:1"] + account)
            try await run(yaml, folder, ["replay", "start", "down"], exits: 64)
            let secret = try folder.write("FAKE-SECRET".utf8, as: "key")
            try await run(
                yaml,
                folder,
                ["replay", "start", "down", "--secret-file", secret, "--attempts", "1"],
                exits: 69
            )
            #expect(try await database.texts("SELECT state FROM upstream.replays") == ["failed"])
            try await run(yaml, folder, ["replay", "cancel", "down", "--dry-run"])
            try await run(yaml, folder, ["replay", "cancel", "down"])
            try await run(yaml, folder, ["replay", "start", "down", "--secret-file", secret], exits: 1)
        }

        /// Runs a command to its end.
        private func run(
            _ yaml: String,
            _ folder: TemporaryFolder,
            _ command: [String],
            exits code: Int32 = 0
        ) async throws {
            let process = try ChildWorker(yaml: yaml, in: folder, command: command)
            let found = try await process.exitCode()
            let text = try process.logText()
            #expect(found == code, "\(command.joined(separator: " ")): \(text)")
            #expect(!text.contains("SECRET"))
        }
    }
}

extension Database {
    /// Stores so many messages, one a second up to now; every third one is an order.
    func seed(_ count: Int, startingAt first: Int = 1) async throws {
        try await script(
            """
            SELECT upstream.ensure_partitions((now() - interval '2 days')::date, (now() + interval '1 day')::date);
            INSERT INTO upstream.messages
            SELECT
                encode(substr(sha256(convert_to('1234567890', 'UTF8') || '\\x00'::bytea || convert_to(id, 'UTF8')), 1, 16),
                    'hex')::uuid,
                '1234567890', id, token, encode(substr(sha256(convert_to(token, 'UTF8')), 1, 16), 'hex')::uuid,
                CASE WHEN n % 3 = 0 THEN 'com.example.orders' ELSE 'com.example.chat' END,
                ('{"n" : ' || n || ', "t": "<&>"}')::json, NULL, CASE WHEN n % 5 = 0 THEN '{"time_to_live":1}' END, NULL,
                NULL, now() - (n || ' seconds')::interval
            FROM (
                SELECT n, CASE WHEN n > 10000 THEN 'z' ELSE 'm' END || '-' || n AS id, 'token-' || n % 10 AS token
                FROM generate_series(\(first), \(first + count - 1)) AS n
            ) AS input
            """
        )
    }

    /// What the table of messages holds.
    func digest() async throws -> [String] {
        try await texts("SELECT md5(string_agg(t::text, '|' ORDER BY received_at)) FROM upstream.messages AS t")
    }
}
