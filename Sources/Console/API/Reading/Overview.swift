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

    /// Reads the current figures.
    ///
    /// - Parameter connection: A session that may select from the schema's tables.
    /// - Throws: `PostgresError`
    /// - Returns: The figures.
    static func take(_ connection: PostgresConnection) async throws(PostgresError) -> Overview {
        let store = try await StoreStatistics.take(connection, categories: 10, counted: countLimit)
        let workers = try await connection.run { connection throws(PostgresError) in try WorkerTable.list(connection) }
        return Overview(store: store, workers: workers)
    }

    var alive: [WorkerRow] { workers.filter(\.isAlive) }

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
    var streams: [WorkerReport.Streams] { SenderStreams.sum(alive) }
}

/// Streams by sender, over several workers.
enum SenderStreams {
    /// Adds the workers' streams.
    ///
    /// - Parameter workers: The workers to count.
    /// - Returns: One entry per sender, by its id.
    static func sum(_ workers: [WorkerRow]) -> [WorkerReport.Streams] {
        var sums: [String: WorkerReport.Streams] = [:]
        for streams in workers.flatMap(\.streams) {
            var sum =
                sums[streams.sender]
                ?? WorkerReport.Streams(sender: streams.sender)
            sum.connecting += streams.connecting
            sum.bound += streams.bound
            sum.draining += streams.draining
            sums[streams.sender] = sum
        }
        return sums.values.sorted { $0.sender < $1.sender }
    }
}
