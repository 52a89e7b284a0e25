package import Postgres
package import Vocabulary

/// The circuit breakers of a handler, over the workers that are alive.
package struct HandlerBreaker: Sendable, Equatable {
    /// The worst of them: `open`, `half_open`, or `closed`.
    package var circuit: String
    /// In how many seconds the next probe may begin, 0 or more; nil where a probe is under way, or the circuit is closed.
    package var nextProbe: Double?

    /// Whether at least one of them is not closed.
    package var isFailing: Bool { circuit != "closed" }

    /// The breakers of each handler, by its name, as the workers' latest rows tell.
    ///
    /// - Parameter connection: A session that may read `upstream.workers`; without the right, or the table, nothing is known.
    /// - Throws: ``PostgresError``
    /// - Returns: An entry for each handler that a living worker runs.
    package static func all(_ connection: PostgresConnection) async throws(PostgresError) -> [String: HandlerBreaker] {
        let (workers, now) = try await workers(connection)
        return of(workers, now: now)
    }

    /// The workers' rows and the database's time; no rows without the right to see them, or the table.
    static func workers(_ connection: PostgresConnection) async throws(PostgresError) -> ([WorkerRow], Timestamp) {
        try await connection.run { connection throws(PostgresError) in
            let now: Timestamp = try connection.run(WaitingStatements.now).value()
            do throws(PostgresError) {
                return (try WorkerTable.list(connection), now)
            } catch  where ["42P01", "42703", "42501"].contains(error.sqlState ?? "") {
                return ([], now)
            }
        }
    }

    /// The breakers of each handler in these rows.
    package static func of(_ workers: [WorkerRow], now: Timestamp) -> [String: HandlerBreaker] {
        var found: [String: HandlerBreaker] = [:]
        for worker in workers where worker.isAlive {
            let age = (now - worker.heartbeatAt).inSeconds
            for handler in worker.handlers {
                var breaker = found[handler.handler] ?? HandlerBreaker(circuit: "closed", nextProbe: nil)
                if rank(handler.circuit) > rank(breaker.circuit) { breaker.circuit = handler.circuit }
                if let probe = handler.nextProbe {
                    let left = max(0, probe - age)
                    breaker.nextProbe = min(breaker.nextProbe ?? left, left)
                }
                found[handler.handler] = breaker
            }
        }
        return found
    }

    private static func rank(_ circuit: String) -> Int { ["closed", "half_open", "open"].firstIndex(of: circuit) ?? 0 }
}
