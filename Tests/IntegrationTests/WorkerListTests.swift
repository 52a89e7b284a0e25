import CCSEmulator
import Foundation
import IntegrationSupport
import Testing

extension Integration {
    /// What a worker tells of itself in `upstream.workers`, and that nothing depends on it.
    @Suite struct WorkerListTests {
        private static let handlers = """
              - name: noted
                categories: ["*"]
                log: {}

            """

        @Test("a worker's row shows its streams, rates and handlers, and goes when the worker stops in order")
        func lists() async throws {
            try await Stage.run {
                $0.load = LoadProfile(count: nil)
                $0.load.connections = 2
                $0.load.rate = 200
            } _: { stage in
                let worker = try ChildWorker(
                    yaml: try stage.yaml(WorkerOptions(handlers: Self.handlers)),
                    in: stage.folder
                )
                let row = """
                    SELECT count(*) FROM upstream.workers
                    WHERE worker LIKE '%:\(worker.processID)' AND heartbeat_at > now() - interval '20 seconds'
                        AND roles = '{receive,dispatch}' AND NOT stopping
                        AND streams @> '[{"sender": "\(Stage.sender)", "bound": 2}]'
                        AND (rates->>'received')::float8 > 0 AND (rates->>'stored')::float8 > 0
                        AND (rates->>'acked')::float8 > 0 AND (rates->>'handled')::float8 > 0
                        AND (rates->>'ack_p99')::float8 >= (rates->>'ack_p50')::float8
                        AND handlers @> '[{"handler": "noted", "circuit": "closed", "next_probe": null, "paused": false}]'
                        AND (handlers->0->>'attempts')::float8 > 0
                    """
                try await waitUntil("the row tells of the load") { try await stage.database.integer(row) == 1 }
                worker.send(SIGTERM)
                #expect(try await worker.exitCode() == 0)
                #expect(try await stage.database.count("workers") == 0)
            }
        }

        @Test("what a worker has counted is in its samples once it has stopped, each copy once, over a restart as well")
        func samples() async throws {
            let count = 400
            try await Stage.run {
                $0.load = LoadProfile(count: count)
                $0.load.connections = 2
            } _: { stage in
                let yaml = try stage.yaml(WorkerOptions(handlers: Self.handlers))
                for _ in 0..<2 {
                    let worker = try ChildWorker(yaml: yaml, in: stage.folder)
                    try await stage.waitUntilComplete()
                    try await stage.database.waitUntilHandled(count)
                    let listed = "SELECT count(*) FROM upstream.workers WHERE worker LIKE '%:\(worker.processID)'"
                    try await waitUntil("it is listed") { try await stage.database.integer(listed) == 1 }
                    worker.send(SIGTERM)
                    #expect(try await worker.exitCode() == 0)
                }
                func sum(_ column: String, _ kind: String, _ subject: String) async throws -> Int? {
                    try await stage.database.integer(
                        "SELECT sum(\(column))::bigint FROM upstream.samples WHERE kind = '\(kind)' AND subject = '\(subject)'"
                    )
                }
                #expect(try await sum("stored", "store", "") == count)
                #expect(try await sum("acked", "store", "") == sum("received", "store", ""))
                #expect(try await sum("received", "sender", Stage.sender) == sum("received", "store", ""))
                #expect(try await sum("handled", "handler", "noted") == count)
                let times = "(SELECT sum(n) FROM unnest(times) AS n)"
                #expect(try await sum(times, "handler", "noted") == count)
                #expect(try await sum("(started IS NOT NULL)::int", "store", "") == 2)
                #expect(try await stage.database.integer("SELECT count(DISTINCT instance) FROM upstream.samples") == 2)
                let aligned = "SELECT count(*) FROM upstream.samples WHERE at <> date_trunc('minute', at) OR at > now()"
                #expect(try await stage.database.integer(aligned) == 0)
            }
        }

        @Test("without the table, or with a locked one, everything else goes on (G5)", arguments: [true, false])
        func missing(isLocked: Bool) async throws {
            let count = 500
            try await Stage.run {
                $0.load = LoadProfile(count: count)
                $0.load.connections = 2
            } _: { stage in
                func body() async throws {
                    let worker = try ChildWorker(
                        yaml: try stage.yaml(WorkerOptions(handlers: Self.handlers)),
                        in: stage.folder
                    )
                    try await worker.waitForEvent("worker.unlisted")
                    try await stage.waitUntilComplete()
                    try await stage.database.waitUntilHandled(count)
                    #expect(try await worker.scrape().sum("upstream_acks_total", "outcome=\"sent\"") == Double(count))
                    worker.send(SIGTERM)
                    #expect(try await worker.exitCode() == 0)
                }
                if isLocked {
                    try await stage.database.withLock("upstream.workers", body)
                } else {
                    try await stage.database.script("ALTER TABLE upstream.workers RENAME TO former_workers")
                    try await body()
                }
            }
        }

        @Test("a worker that was killed leaves its row, which its successor's and others' clocks call dead")
        func killed() async throws {
            try await Stage.run {
                $0.load = LoadProfile(count: 1)
            } _: { stage in
                let worker = try ChildWorker(yaml: try stage.yaml(WorkerOptions()), in: stage.folder)
                try await waitUntil("it is listed") { try await stage.database.count("workers") == 1 }
                worker.send(SIGKILL)
                #expect(try await worker.exitCode() == -SIGKILL)
                try await stage.database.script(
                    "UPDATE upstream.workers SET heartbeat_at = heartbeat_at - interval '25 hours'"
                )
                let second = try ChildWorker(yaml: try stage.yaml(WorkerOptions()), in: stage.folder)
                try await waitUntil("the other takes it off the list") {
                    try await stage.database.integer(
                        """
                        SELECT count(*) FILTER (WHERE worker LIKE '%:\(second.processID)') * 10 + count(*)
                        FROM upstream.workers
                        """
                    ) == 11
                }
                second.send(SIGTERM)
                #expect(try await second.exitCode() == 0)
            }
        }
    }
}
