import Foundation
import IntegrationSupport
import Testing

extension Integration {
    /// A worker that is stopped while it holds what the others need (G6).
    @Suite struct FrozenWorkerTests {
        private static let taken = """
            CREATE SCHEMA app;
            CREATE TABLE app.taken (category text, waited interval);
            CREATE FUNCTION app.take(message upstream.messages) RETURNS void LANGUAGE sql AS $$
                INSERT INTO app.taken VALUES (message.category, clock_timestamp() - message.received_at)
            $$;
            """
        private static let handlers = """
            - {name: ordered, categories: ["com.example.ordered"], ordering: device, sql: {function: app.take}}
            - {name: other, categories: ["com.example.other"], sql: {function: app.take}}
            """
        private static let lease = Duration.seconds(8)

        private func worker(_ name: String, _ role: String, _ stage: Stage) throws -> ChildWorker {
            var options = WorkerOptions(lease: "8s")
            options.handlers = Self.handlers
            options.database = stage.database.url + "&application_name=\(name)"
            return try ChildWorker(yaml: try stage.yaml(options), in: stage.folder, ["--roles", role])
        }

        private func taken(_ category: String, _ stage: Stage) async throws -> Int {
            try await stage.database.integer(
                "SELECT count(*) FROM app.taken WHERE category = 'com.example.\(category)'"
            )
        }

        /// Stops the worker that is in the middle of a claim of the ordered handler, and tells its name.
        private func freeze(_ workers: [String: ChildWorker], _ stage: Stage) async throws -> String {
            // Each statement of a claim waits for this lock, under the handler's own.
            try await stage.database.withLock("upstream.messages") {
                try await stage.database.script("UPDATE upstream.handlers SET paused = false")
                var name = ""
                try await waitUntil("a worker is claiming") {
                    name =
                        try await stage.database.texts(
                            """
                            SELECT application_name FROM pg_stat_activity JOIN pg_locks USING (pid)
                            WHERE datname = current_database() AND wait_event_type = 'Lock' AND locktype = 'advisory'
                                AND granted
                            """
                        ).first ?? ""
                    return !name.isEmpty
                }
                let worker = try #require(workers[name])
                worker.send(SIGSTOP)
                try await waitUntil("it is stopped") {
                    try String(contentsOfFile: "/proc/\(worker.processID)/stat", encoding: .utf8).contains(") T ")
                }
                return name
            }
        }

        @Test(
            "A worker stopped in an ordered handler's claim, or while its rows are sent, holds up nobody for long",
            arguments: [10, 200_000]
        )
        func claiming(_ size: Int) async throws {
            try await Stage.run { stage in
                try await stage.database.script(Self.taken)
                let receiver = try worker("receiver", "receive", stage)
                let workers = [
                    "first": try worker("first", "dispatch", stage), "second": try worker("second", "dispatch", stage),
                ]
                try await waitUntil("both are at work") { try await stage.database.count("handler_workers") == 4 }
                try await stage.database.script("UPDATE upstream.handlers SET paused = true WHERE name = 'ordered'")
                let data = #"""# + String(repeating: "x", count: size) + #"""#
                let category = "com.example.ordered"
                for name in 0..<6 {
                    try await stage.send(data: [data], category: category, device: "FAKE-\(name)", idPrefix: "\(name)")
                }
                try await waitUntil("all wait") { try await stage.database.waitingDeliveries() == 6 }
                let frozen = try await freeze(workers, stage)
                let start = ContinuousClock.now
                var others = 0
                while try await taken("ordered", stage) < 6 {
                    try #require(.now - start < .seconds(60))
                    try await stage.send(data: ["{}"], category: "com.example.other", idPrefix: "other-\(others)")
                    others += 1
                    try await waitUntil("it is handled") { try await taken("other", stage) == others }
                }
                // Without the lease's end it would be for ever.
                #expect(.now - start < Self.lease * 2)
                let longest = "SELECT extract(epoch FROM max(waited)) FROM app.taken WHERE category LIKE '%.other'"
                #expect(try await stage.database.integer("floor((\(longest)))") < 2)
                workers[frozen]?.send(SIGCONT)
                for worker in [receiver] + workers.values {
                    worker.send(SIGTERM)
                    #expect(try await worker.exitCode() == 0)
                }
                #expect(try await stage.database.waitingDeliveries() == 0)
                #expect(try await taken("ordered", stage) == 6, "each once")
                #expect(try await taken("other", stage) == others)
            }
        }
    }
}
