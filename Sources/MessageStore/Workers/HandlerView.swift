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

/// The circuit breakers of a handler in all live workers.
package struct HandlerBreaker: Sendable, Equatable {
    /// The worst state: `open`, `half_open`, or `closed`.
    package var circuit: String
    /// The seconds, 0 or more, until the next probe may begin; nil while one is under way, or if the circuit is closed.
    package var nextProbe: Double?
    /// The most failures since a success in one worker.
    package var failures = 0
    /// The latest failure of the handler itself; nil if unknown.
    package var lastFailure: String?

    /// Why nothing is delivered while it is open, in words.
    package var why: String {
        "the circuit is open: \(Amount.counted(failures, "failure"))" + (lastFailure.map { ", last: \($0)" } ?? "")
    }

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
                breaker.failures = max(breaker.failures, handler.failedInRow ?? 0)
                if handler.circuit != "closed" { breaker.lastFailure = handler.lastFailure ?? breaker.lastFailure }
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

extension WaitingDelivery {
    /// The delivery as held where it is due and its handler's circuit is open.
    func held(by breaker: HandlerBreaker?, now: Timestamp) -> WaitingDelivery {
        guard reason == .due, let breaker, breaker.isFailing else { return self }
        var held = self
        (held.reason, held.heldReason) = (.held, breaker.why)
        held.heldUntil = breaker.nextProbe.flatMap { $0 < 1e9 ? now + .microseconds(Int64($0 * 1e6)) : nil }
        return held
    }
}
