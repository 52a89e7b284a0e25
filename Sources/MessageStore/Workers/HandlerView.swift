package import Postgres
package import Vocabulary

/// A handler as the database and the live workers report it.
package struct HandlerView: Sendable {
    package var state: HandlerState
    /// The limit of its counts.
    package var countedTo: Int
    /// The live workers' reports about it.
    package var reports: [WorkerReport.Handler]
    /// Its circuit breakers; nil if no live worker runs it.
    package var breaker: HandlerBreaker?
    /// The database's time of the snapshot.
    package var at: Timestamp

    /// Attempts that ended, per second, over its workers.
    package var attempts: Double { reports.reduce(0) { $0 + $1.attempts } }
    /// Those that failed, per second.
    package var failed: Double { reports.reduce(0) { $0 + $1.failed } }
    /// Attempts under way.
    package var running: Int { reports.reduce(0) { $0 + $1.running } }
    /// The number of workers in which its circuit is not closed.
    package var failing: Int { reports.count { $0.circuit != "closed" } }
    /// When the next probe of an open circuit may begin; nil if none is to come.
    package var nextProbeAt: Timestamp? {
        breaker?.nextProbe.flatMap { (0...1e9).contains($0) ? at + .microseconds(Int64($0 * 1e6)) : nil }
    }

    /// Combines handlers, by name, with the workers' rows.
    ///
    /// `limit` is that of the handlers' counts.
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

    /// All registered handlers, by name.
    ///
    /// Without the right to read `upstream.workers`, nothing is known of workers. Counts stop at `limit`.
    package static func list(
        _ connection: PostgresConnection,
        counted limit: Int = HandlerState.countLimit
    ) async throws(PostgresError) -> [HandlerView] {
        let states = try await HandlerStates(connection).list(counted: limit)
        let (workers, now) = try await HandlerBreaker.workers(connection)
        return all(states, counted: limit, workers, at: now)
    }
}
