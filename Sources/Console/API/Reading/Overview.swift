import MessageStore
import Postgres
import Vocabulary

/// How things stand: what workers tell of themselves, and what the catalog and its counters say; nothing is counted.
struct Overview: Sendable {
    /// The store: sizes, estimates, handlers with what waits.
    var store: StoreStatistics
    /// The workers, those that died within the last ten minutes included.
    var workers: [WorkerRow]

    /// Where counts of what waits for a handler stop: beyond, only that there is more matters.
    static let countLimit = 10_000

    /// Takes the figures.
    ///
    /// - Parameter connection: A session that may select from the schema's tables.
    /// - Throws: `PostgresError`
    /// - Returns: The figures of this moment.
    static func take(_ connection: PostgresConnection) async throws(PostgresError) -> Overview {
        let store = try await StoreStatistics.take(connection, categories: 10, counted: countLimit)
        let workers = try await connection.run { connection throws(PostgresError) in try WorkerTable.list(connection) }
        return Overview(store: store, workers: workers)
    }

    /// The workers that are alive.
    var alive: [WorkerRow] { workers.filter(\.isAlive) }

    /// The sum of a rate over the workers that are alive, per second.
    func rate(_ path: KeyPath<WorkerReport.Rates, Double>) -> Double {
        alive.reduce(0) { $0 + $1.rates[keyPath: path] }
    }

    /// The longest that half of the acks took in any worker, and the longest that 99 % did, in seconds; nil without acks.
    var ackLatency: (half: Double?, most: Double?) {
        (alive.compactMap(\.rates.ackP50).max(), alive.compactMap(\.rates.ackP99).max())
    }

    /// The handlers, by name.
    var handlers: [HandlerView] {
        HandlerView.all(store.handlers, counted: Self.countLimit, workers, at: store.takenAt)
    }

    /// The streams of each sender over the workers that are alive, by sender.
    var streams: [WorkerReport.Streams] { SenderStreams.sum(alive) }
}

/// Streams by sender, over several workers.
enum SenderStreams {
    /// Adds them up.
    ///
    /// - Parameter workers: Those that count.
    /// - Returns: One for each sender, by its id.
    static func sum(_ workers: [WorkerRow]) -> [WorkerReport.Streams] {
        var sums: [String: WorkerReport.Streams] = [:]
        for streams in workers.flatMap(\.streams) {
            var sum =
                sums[streams.sender]
                ?? WorkerReport.Streams(sender: streams.sender, connecting: 0, bound: 0, draining: 0)
            sum.connecting += streams.connecting
            sum.bound += streams.bound
            sum.draining += streams.draining
            sums[streams.sender] = sum
        }
        return sums.values.sorted { $0.sender < $1.sender }
    }
}
