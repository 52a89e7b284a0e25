import CCSEmulator
import Foundation
import IntegrationSupport
import NIOCore
import Testing

extension Integration {
    /// Handlers of the whole worker, in a process of its own.
    @Suite struct DispatchTests {
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
