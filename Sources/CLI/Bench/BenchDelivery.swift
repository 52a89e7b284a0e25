import CCSEmulator

/// Measures messages from delivery by the emulator until a handler has handled the last of them.
struct BenchDelivery: Sendable {
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
    private static let connections = 10

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
        let (pair, database) = try await start(handlers, count: count)
        let result = try await pair.stopping {
            try await pair.wait("the warm-up") { $0.tally.acked >= count / 5 }
            let before = try await pair.reading()
            try await pair.wait("every ack") { $0.isComplete }
            while try await Self.waiting(database) > 0 {
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
        problems += pair.problems
        try await site.dropDatabase("bench")
        return result
    }

    /// Starts an emulator with `count` messages and a worker with these handlers, over its own database.
    ///
    /// With a `rate` in messages per second, every latency is sampled; without one, messages go as fast as possible,
    /// and none is.
    func start(
        _ handlers: String,
        count: Int,
        rate: Double? = nil
    ) async throws -> (pair: BenchPair, database: String) {
        let database = try await site.makeDatabase("bench")
        var settings = BenchLoad.emulator(
            count: count,
            connections: Self.connections,
            size: plan.size,
            window: plan.window,
            sampling: rate.map { _ in 1 }
        )
        settings.load.rate = rate
        let pair = try await BenchPair(
            site,
            settings,
            database: database,
            connections: Self.connections,
            handlers: handlers,
            plan
        )
        return (pair, database)
    }

    /// The number of pending deliveries.
    static func waiting(_ database: String) async throws -> Int {
        try await BenchSite.numbers(database, BenchStatements.waiting).first ?? 0
    }
}
