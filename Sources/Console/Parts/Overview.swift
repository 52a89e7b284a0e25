import MessageStore
import Postgres
import Resources

/// The system's state, from the workers' reports, the catalog and its counters; nothing is counted.
struct Overview: Sendable {
    /// Sizes, estimates, and handlers with their queues.
    var store: StoreStatistics
    /// The workers, including those that fell silent within the last day, unless dismissed.
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

// The fields: nothing of devices and handlers.

extension Overview: ShownResource {
    static let resource = "Overview"
    static let about: StaticString? = "Rates are per second, over the workers that are alive."
    static let fields: [Field<Overview>] = [
        Field("at") { $0.store.takenAt },
        Field("newest_message_at") { $0.store.newest },
        Field("in_flight") { $0.inFlight },
        Field("rates") { Rates(overview: $0) },
        Field("ack_latency_seconds") { Latency(overview: $0) },
        Field("streams") { $0.streams },
        Field("workers") { $0.workers },
        Field("handlers") { $0.handlers },
        Field("sizes") { Sizes(store: $0.store) },
        Field("categories") { $0.store.categories },
    ]

    struct Rates: ShownResource {
        var overview: Overview

        static let resource = "Rates"
        static let fields: [Field<Rates>] = [
            Field("received") { $0.overview.rate(\.received) }, Field("stored") { $0.overview.rate(\.stored) },
            Field("duplicates") { $0.overview.rate(\.duplicates) }, Field("acked") { $0.overview.rate(\.acked) },
            Field("handled") { $0.overview.rate(\.handled) },
        ]
    }

    struct Latency: ShownResource {
        var overview: Overview

        static let resource = "Latency"
        static let fields: [Field<Latency>] = [
            Field("p50") { $0.overview.ackLatency.half }, Field("p99") { $0.overview.ackLatency.most },
        ]
    }

    struct Sizes: ShownResource {
        var store: StoreStatistics

        static let resource = "Sizes"
        static let fields: [Field<Sizes>] = [
            Field("database_bytes") { $0.store.databaseBytes }, Field("tables") { $0.store.tables },
            Field("days") { $0.store.days.count }, Field("days_ahead") { $0.store.daysAhead },
        ]
    }
}

extension StoreStatistics.Table: ShownResource {
    static let resource = "Table"
    static let fields: [Field<StoreStatistics.Table>] = [
        Field("name") { $0.name }, Field("rows_estimate") { $0.rows }, Field("bytes") { $0.bytes },
    ]
}

extension StoreStatistics.Category: ShownResource {
    static let resource = "Estimate"
    static let fields: [Field<StoreStatistics.Category>] = [
        Field("name") { $0.name }, Field("rows_estimate", isNullable: true) { $0.rows },
    ]
}

extension WorkerRow {
    static func all(_ connection: PostgresConnection) async throws(PostgresError) -> [WorkerRow] {
        try await connection.run { connection throws(PostgresError) in try WorkerTable.list(connection) }
    }
}

extension [WorkerRow] {
    /// The sums of the living workers' streams, by sender, and nothing for the senders that only silent workers had.
    var streams: [WorkerReport.Streams] {
        var sums: [String: WorkerReport.Streams] = [:]
        for worker in self where worker.roles.contains("receive") {
            for streams in worker.streams { sums[streams.sender] = WorkerReport.Streams(sender: streams.sender) }
        }
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
