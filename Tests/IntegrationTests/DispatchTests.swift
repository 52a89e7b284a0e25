import CCSEmulator
import Foundation
import IntegrationSupport
import NIOCore
import Testing

extension Integration {
    /// Handlers of the whole worker, in a process of its own.
    @Suite struct DispatchTests {
        @Test("a pause ends by the database's clock, whatever that of the machine is", arguments: ["+30d", "-3d"])
        func pauseByTheDatabasesClock(offset: String) async throws {
            let database = try await Database()
            try await database.script("INSERT INTO upstream.handlers (name) VALUES ('orders')")
            let folder = try TemporaryFolder()
            let config = try folder.write("database: {url: \"\(database.url)\"}\n".utf8, as: "config.yaml")
            func run(_ arguments: String...) throws -> CommandRun {
                try CommandRun(["handlers"] + arguments + ["--config", config], RetentionTests.faked(offset))
            }
            let pause = try run("pause", "orders", "--for", "1h")
            #expect(pause.status == 0, "\(pause.errors)")
            let end = try await database.texts(
                """
                SELECT concat_ws(' ', paused, paused_at <= now(), paused_at > now() - interval '10 minutes',
                    paused_until = paused_at + interval '1 hour')
                FROM upstream.handlers
                """
            )
            #expect(end == ["t t t t"])
            #expect(try run("list", "--table").output.contains("paused until "))
            try await database.script("UPDATE upstream.handlers SET paused_until = now()")
            #expect(try run("list", "--table").output.contains("paused until ") == false)
        }

        @Test("nothing is received before the worker's handlers are subscribed, so that they miss nothing (G6)")
        func subscribesFirst() async throws {
            try await Stage.run {
                $0.load = LoadProfile(count: 20)
            } _: { stage in
                var options = WorkerOptions()
                options.handlers = #"- {name: everything, categories: ["*"], log: {}}"#
                let yaml = try stage.yaml(options)
                let worker = try await stage.database.withLock("upstream.handlers IN SHARE MODE") {
                    let worker = try ChildWorker(yaml: yaml, in: stage.folder)
                    try await waitUntil("the registration waits for the lock") {
                        try await stage.database.integer(
                            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
                        ) == 1
                    }
                    await #expect(throws: (any Error).self) {
                        try await stage.emulator.wait(for: "a stream", limit: .seconds(1)) { $0.tally.bound > 0 }
                    }
                    return worker
                }
                try await stage.waitUntilComplete()
                try await waitUntil("all are handled") { try await worker.deliveries("everything", "done") == 20 }
                worker.send(SIGTERM)
                #expect(try await worker.exitCode() == 0)
            }
        }
    }
}
