import MessageStore
import Postgres

/// The system's state, from the workers' reports, the catalog and its counters; nothing is counted.
struct Overview: Sendable {
    /// Sizes, estimates, and handlers with their queues.
    var store: StoreStatistics
    /// The workers, including those that died within the last ten minutes.
    var workers: [WorkerRow]

    /// Where counting a handler's queue stops.
    static let countLimit = 10_000

    static func take(_ connection: PostgresConnection) async throws(PostgresError) -> Overview {
        let store = try await StoreStatistics.take(connection, categories: 10, counted: countLimit)
        return Overview(store: store, workers: try await WorkerRow.all(connection))
    }

    var alive: [WorkerRow] { workers.filter(\.isAlive) }

    var inFlight: Int { alive.reduce(0) { $0 + $1.inFlight } }

    /// A rate's sum over the living workers, per second.
    func rate(_ path: KeyPath<WorkerReport.Rates, Double>) -> Double {
        alive.reduce(0) { $0 + $1.rates[keyPath: path] }
    }

    /// The highest median and 99th percentile of ack latency over the workers, in seconds; nil without acks.
    var ackLatency: (half: Double?, most: Double?) {
        (alive.compactMap(\.rates.ackP50).max(), alive.compactMap(\.rates.ackP99).max())
    }

    var handlers: [HandlerView] {
        HandlerView.all(store.handlers, counted: Self.countLimit, workers, at: store.takenAt)
    }

    /// The streams of each sender over the living workers.
    var streams: [WorkerReport.Streams] { workers.streams }
}

extension WorkerRow {
    static func all(_ connection: PostgresConnection) async throws(PostgresError) -> [WorkerRow] {
        try await connection.run { connection throws(PostgresError) in try WorkerTable.list(connection) }
    }
}

extension [WorkerRow] {
    /// The sums of the living workers' streams, by sender.
    var streams: [WorkerReport.Streams] {
        var sums: [String: WorkerReport.Streams] = [:]
        for streams in filter(\.isAlive).flatMap(\.streams) {
            var sum = sums[streams.sender] ?? WorkerReport.Streams(sender: streams.sender)
            sum.connecting += streams.connecting
            sum.bound += streams.bound
            sum.draining += streams.draining
            sums[streams.sender] = sum
        }
        return sums.values.sorted { $0.sender < $1.sender }
    }
}
