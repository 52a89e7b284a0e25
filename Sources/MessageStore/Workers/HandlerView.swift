package import Postgres
package import Vocabulary

/// A handler as the database and the living workers know it.
package struct HandlerView: Sendable {
    /// What the database knows.
    package var state: HandlerState
    /// Where its counts stop.
    package var countedTo: Int
    /// What the living workers tell of it.
    package var reports: [WorkerReport.Handler]
    /// Its circuit breakers; nil where no living worker runs it.
    package var breaker: HandlerBreaker?
    /// The database's time when that was read.
    package var at: Timestamp

    /// Its workers' attempts that ended, per second.
    package var attempts: Double { reports.reduce(0) { $0 + $1.attempts } }
    /// Those of them that did not succeed, per second.
    package var failed: Double { reports.reduce(0) { $0 + $1.failed } }
    /// Attempts under way.
    package var running: Int { reports.reduce(0) { $0 + $1.running } }
    /// In how many workers the circuit is not closed.
    package var failing: Int { reports.count { $0.circuit != "closed" } }
    /// When the next probe of an open circuit may begin; nil where none is to come.
    package var nextProbeAt: Timestamp? {
        breaker?.nextProbe.flatMap { (0...1e9).contains($0) ? at + .microseconds(Int64($0 * 1e6)) : nil }
    }

    /// All of these handlers, by name.
    ///
    /// - Parameters:
    ///   - handlers: What the database knows.
    ///   - limit: Where their counts stop.
    ///   - workers: The workers' rows.
    ///   - now: The database's time.
    /// - Returns: One view for each handler.
    package static func all(
        _ handlers: [HandlerState],
        counted limit: Int,
        _ workers: [WorkerRow],
        at now: Timestamp
    ) -> [HandlerView] {
        let breakers = HandlerBreaker.of(workers, now: now)
        let reports = Dictionary(grouping: workers.filter(\.isAlive).flatMap(\.handlers), by: \.handler)
        return handlers.map {
            HandlerView(
                state: $0,
                countedTo: limit,
                reports: reports[$0.name] ?? [],
                breaker: breakers[$0.name],
                at: now
            )
        }
    }

    /// All handlers that are registered, by name.
    ///
    /// - Parameters:
    ///   - connection: A session; without the right to read `upstream.workers` nothing is known of workers.
    ///   - limit: Where counts stop.
    /// - Throws: ``PostgresError``
    /// - Returns: One view for each handler.
    package static func list(
        _ connection: PostgresConnection,
        counted limit: Int = HandlerState.countLimit
    ) async throws(PostgresError) -> [HandlerView] {
        let states = try await HandlerStates(connection).list(counted: limit)
        let (workers, now) = try await HandlerBreaker.workers(connection)
        return all(states, counted: limit, workers, at: now)
    }
}
