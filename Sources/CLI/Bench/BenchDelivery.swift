import CCSEmulator

/// Messages as the emulator delivers them, with a handler, until the last of them is handled.
struct BenchDelivery: Sendable {
    /// What it took.
    struct Figures: Sendable {
        /// Messages a second.
        var rate: Double
        /// Processor time of PostgreSQL for each message, in microseconds.
        var postgres: Double
        /// Processor time of the worker for each message, in microseconds.
        var worker: Double
    }

    let plan: BenchPlan
    let site: BenchSite

    /// A handler that takes every message.
    static let handler = #"  - {name: everything, categories: ["*"], concurrency: 8, log: {}}"#
    private static let connections = 10

    /// Runs over a database of its own.
    ///
    /// - Parameters:
    ///   - handlers: The configuration's list of handlers, and what comes behind it.
    ///   - problems: What went wrong is added here.
    ///   - last: Looks into the database before it goes, while the worker still runs.
    /// - Returns: What it took, and what `last` saw.
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

    /// An emulator and a worker with these handlers, over a database of its own.
    ///
    /// - Parameters:
    ///   - handlers: The configuration's list of handlers, and what comes behind it.
    ///   - count: How many messages the emulator has.
    ///   - rate: How many of them it sends a second, with each latency sampled; nil for as many as it can, with none.
    /// - Returns: Both, and the database.
    /// - Throws: What starting them throws.
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

    /// How many deliveries wait.
    static func waiting(_ database: String) async throws -> Int {
        try await BenchSite.numbers(database, BenchStatements.waiting).first ?? 0
    }
}
