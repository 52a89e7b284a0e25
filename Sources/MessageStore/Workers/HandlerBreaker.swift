package import Postgres
package import Vocabulary

/// The circuit breakers of a handler in all live workers.
package struct HandlerBreaker: Sendable, Equatable {
    /// The worst state: `open`, `half_open`, or `closed`.
    package var circuit: String
    /// The seconds, 0 or more, until the next probe may begin; nil while one is under way, or if the circuit is closed.
    package var nextProbe: Double?

    /// Whether at least one circuit is not closed.
    package var isFailing: Bool { circuit != "closed" }

    /// The breakers of each handler that a live worker runs, by name, from the workers' latest rows.
    ///
    /// Empty without the right to read `upstream.workers`.
    package static func all(_ connection: PostgresConnection) async throws(PostgresError) -> [String: HandlerBreaker] {
        let (workers, now) = try await workers(connection)
        return of(workers, now: now)
    }

    /// The workers' rows and the database's time; no rows without the right to read them.
    static func workers(_ connection: PostgresConnection) async throws(PostgresError) -> ([WorkerRow], Timestamp) {
        try await connection.run { connection throws(PostgresError) in
            let now: Timestamp = try connection.databaseTime()
            do throws(PostgresError) {
                return (try WorkerTable.list(connection), now)
            } catch  where error.failureClass == .permission {
                return ([], now)
            }
        }
    }

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
