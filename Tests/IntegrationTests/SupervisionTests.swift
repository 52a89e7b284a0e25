import CCSEmulator
import Foundation
import IntegrationSupport
import MessageStore
import Testing

extension Integration {
    /// The program under a service manager: what it tells, when the watchdog is fed, and what SIGHUP does.
    @Suite struct SupervisionTests {
        private func socket(_ stage: Stage) throws -> NotifySocket {
            try NotifySocket(stage.folder.url.appending(path: "notify").path)
        }

        private func worker(
            _ stage: Stage,
            _ socket: NotifySocket,
            _ yaml: String,
            watchdog: String? = nil,
            _ arguments: [String] = []
        ) throws -> ChildWorker {
            var environment = ["NOTIFY_SOCKET": socket.name]
            environment["WATCHDOG_USEC"] = watchdog
            return try ChildWorker(yaml: yaml, in: stage.folder, arguments, environment)
        }

        @Test("READY once the database is there and the streams are begun; before it, patience; then the state")
        func life() async throws {
            try await Stage.run(on: try await Database(migrated: false)) {
                $0.load = LoadProfile(count: 200)
                $0.load.connections = 2
            } _: { stage in
                let socket = try socket(stage)
                let worker = try worker(stage, socket, try stage.yaml(WorkerOptions()), watchdog: "400000")
                try await socket.wait(for: "EXTEND_TIMEOUT_USEC=")
                try await socket.wait(for: "STATUS=waiting to start: ")
                // Waiting is no hang, and no readiness.
                try await socket.wait(for: "WATCHDOG=1", count: socket.count("WATCHDOG=1") + 5)
                #expect(socket.count("READY=1") == 0)
                try await stage.database.migrate { _ = try await $0.up($1) }
                try await socket.wait(for: "READY=1")
                try await stage.waitUntilComplete()
                try await socket.wait(for: "STATUS=2 of 2 streams bound, ")
                let books = try await worker.scrape()
                try await waitUntil("the upkeep is measured") {
                    try await worker.scrape().sum("upstream_partitions_ahead") == 7
                }
                #expect(books.sum("process_resident_memory_bytes") > 1_000_000)
                #expect(books.sum("process_threads") > 2)
                worker.send(SIGTERM)
                #expect(try await worker.exitCode() == 0)
                #expect(socket.count("READY=1") == 1 && socket.count("STOPPING=1") == 1)
                #expect(socket.count("EXTEND_TIMEOUT_USEC=30000000") == 1, "the grace of 25 s, and five")
                #expect(try worker.events("worker.ready").count == 1)
            }
        }

        @Test("a worker that only dispatches is ready once its handlers are subscribed")
        func dispatchOnly() async throws {
            try await Stage.run { stage in
                let socket = try socket(stage)
                let yaml = try stage.yaml(WorkerOptions(handlers: "- {name: h, categories: [\"*\"], log: {}}"))
                let worker = try worker(stage, socket, yaml, ["--roles", "dispatch"])
                try await socket.wait(for: "READY=1")
                #expect(try await stage.database.count("subscriptions") == 1)
                worker.send(SIGTERM)
                #expect(try await worker.exitCode() == 0)
            }
        }

        @Test("the watchdog is fed through an outage, far longer than it waits itself (G5)")
        func outage() async throws {
            try await Stage.run {
                $0.load = LoadProfile(count: 100)
            } _: { stage in
                let socket = try socket(stage)
                // A loop that made no step for half a second counts as hanging.
                let worker = try worker(stage, socket, try stage.yaml(WorkerOptions()), watchdog: "1000000")
                try await stage.database.withLockedLedger {
                    try await waitUntil("messages are in flight") {
                        try await worker.scrape().sum("upstream_messages_in_flight") == 100
                    }
                    try await socket.wait(for: "WATCHDOG=1", count: socket.count("WATCHDOG=1") + 12)
                    #expect(await stage.emulator.tally().acked == 0)
                }
                try await stage.waitUntilComplete()
                #expect(try await stage.database.count("messages") == 100)
                worker.send(SIGTERM)
                #expect(try await worker.exitCode() == 0)
                // Each retry is a step: a writer that hung between them would still have fed the watchdog now and then.
                let stuck = try worker.events("worker.loop_stuck").compactMap { $0["loop"] as? String }
                #expect(!stuck.contains { $0.hasPrefix("writer") || $0 == "queue" }, "\(stuck)")
            }
        }

        /// A handler that never takes a message.
        private static let refusing = """
            import sys
            for line in sys.stdin:
                print('{"outcome": "retry"}', flush=True)

            """

        @Test("SIGHUP under load: a broken file changes nothing, a good one works; no stream ends, nothing is lost")
        func reload() async throws {
            let count = 2_000
            try await Stage.run {
                $0.load = LoadProfile(count: count)
                $0.load.connections = 2
                $0.load.rate = 1_000
            } _: { stage in
                let script = try stage.folder.write(Self.refusing.utf8, as: "refuse.py")
                let command = #"["/usr/bin/python3", "\#(script)"]"#
                let retry = "{max_attempts: 1000, initial: 20ms, maximum: 20ms}"
                let handler = #"- {name: no, categories: ["*"], exec: {command: \#(command)}, retry: \#(retry)}"#
                let yaml = try stage.yaml(WorkerOptions(connections: 2, handlers: handler))
                let once = yaml.replacing("max_attempts: 1000", with: "max_attempts: 1")
                let socket = try socket(stage)
                let worker = try worker(stage, socket, yaml)
                try await stage.wait(for: "some acks") { $0.tally.acked >= 200 }
                try await waitUntil("attempts fail") {
                    try await worker.scrape().sum("upstream_deliveries_total", "outcome=\"retry\"") > 20
                }
                #expect(try await stage.database.count("dead_letters") == 0)
                try worker.rewrite(once + "handlers: [\n")
                for _ in 0..<3 { worker.send(SIGHUP) }
                try await worker.waitForEvent("configuration.reload_failed")
                try await socket.wait(for: "MONOTONIC_USEC=")
                try await socket.wait(for: "READY=1", count: 2)
                #expect(try await stage.database.count("dead_letters") == 0)
                try worker.rewrite(
                    once.replacing("connections: 2", with: "connections: 5")
                        .replacing("level: debug", with: "level: notice")
                )
                worker.send(SIGHUP)
                try await worker.waitForEvent("configuration.needs_restart")
                let waiting = try worker.events("configuration.needs_restart").last?["keys"] as? String
                #expect(waiting == "senders.0.connections")
                let adopted = try worker.events("configuration.reloaded").last?["keys"] as? String
                #expect(adopted == "handlers.0.retry.max_attempts log.level")
                try await waitUntil("the next failure is the last one") {
                    try await stage.database.count("dead_letters") > 0
                }
                try await stage.waitUntilComplete()
                let tally = await stage.emulator.tally()
                #expect(tally.isClean && tally.acked == count && tally.connections == 2, "\(tally.summary)")
                try await waitUntil("every delivery has ended") {
                    try await stage.database.count("dead_letters") == count
                }
                // One line for the group at once, and not thousands.
                #expect(try worker.events("delivery.dead_lettered").count <= 2)
                worker.send(SIGTERM)
                #expect(try await worker.exitCode() == 0)
                #expect(try worker.events("worker.stopped").isEmpty, "below the level that is logged now")
            }
        }
    }
}
