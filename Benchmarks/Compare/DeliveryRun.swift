import CCSEmulator
import CLI

/// Measures messages from delivery by the emulator until a handler has handled the last of them.
struct DeliveryRun: Sendable {
    struct Figures: Sendable {
        /// Messages per second.
        var rate: Double
        /// PostgreSQL's CPU time per message, in microseconds.
        var postgres: Double
        /// The worker's CPU time per message, in microseconds.
        var worker: Double
    }

    let plan: BenchPlan
    let site: BenchSite

    /// A handler that takes every message.
    static let handler = #"  - {name: everything, categories: ["*"], concurrency: 8, log: {}}"#

    /// Runs over its own database.
    ///
    /// - Parameters:
    ///   - handlers: The configuration's list of handlers, and what follows it.
    ///   - problems: Receives what went wrong.
    ///   - last: Reads the database before it is dropped, while the worker still runs.
    /// - Returns: The figures, and the result of `last`.
    /// - Throws: What starting the processes, or waiting for them, throws.
    func run<Value: Sendable>(
        _ handlers: String,
        _ problems: inout [String],
        last: (_ database: String) async throws -> Value
    ) async throws -> (Figures, Value) {
        let count = plan.messages
        return try await site.measure(plan.load(count: count), handlers: handlers, plan, &problems) { pair, database in
            try await pair.wait("the warm-up") { $0.tally.acked >= count / 5 }
            let before = try await pair.reading()
            try await pair.wait("every ack") { $0.isComplete }
            while try await BenchSite.waiting(database) > 0 {
                try pair.worker.check()
                try await Task.sleep(for: .milliseconds(20))
            }
            let after = try await pair.reading()
            let handled = Double(count - before.acked)
            let figures = Figures(
                rate: handled / (before.time.duration(to: after.time) / .seconds(1)),
                postgres: (after.postgres - before.postgres) / handled * 1e6,
                worker: (after.worker - before.worker) / handled * 1e6
            )
            return (figures, try await last(database))
        }
    }
}
