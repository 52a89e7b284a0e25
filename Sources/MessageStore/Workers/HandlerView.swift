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
    /// When the next probe of an open circuit may begin; nil if none is to come, or one may begin already.
    package var nextProbeAt: Timestamp? { breaker?.nextProbeAt(at) }
    /// Why no attempt is made, in words; nil if nothing keeps one from being made, or it is not known.
    package var reason: String? {
        state.pausedReason ?? state.heldReason ?? breaker.flatMap { $0.isFailing ? $0.cause : nil }
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
    /// The seconds, 0 or more, until the next probe may begin; nil if no circuit is open.
    package var nextProbe: Double?
    /// The most failed attempts since a success in one worker where it is not closed; 0 if unknown.
    package var failures = 0
    /// The latest failure of the handler itself; nil if unknown.
    package var lastFailure: String?

    /// What opened it, in words; nil if unknown.
    package var cause: String? {
        let known = [failures > 0 ? Amount.counted(failures, "failure") : nil, lastFailure].compactMap(\.self)
        return known.isEmpty ? nil : known.joined(separator: ", last: ")
    }

    /// Why nothing is delivered while it is open, in words.
    package var why: String { "the circuit is open" + (cause.map { ": \($0)" } ?? "") }

    /// When it is probed next, in words.
    package var probe: String {
        guard let left = nextProbe, left > 0 else { return Self.probeDue }
        return "next probe in \(Amount.time(left.rounded(.up)))"
    }

    /// What ``probe`` says once the time before it is over: a worker's report does not tell these apart.
    package static let probeDue = "a probe is due or under way"

    /// When the next probe may begin; nil if that time is over, or it can't be known.
    func nextProbeAt(_ now: Timestamp) -> Timestamp? {
        nextProbe.flatMap { 0 < $0 && $0 <= 1e9 ? now + .microseconds(Int64($0 * 1e6)) : nil }
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
                if handler.circuit != "closed" {
                    breaker.failures = max(breaker.failures, handler.failedInRow ?? 0)
                    breaker.lastFailure = handler.lastFailure ?? breaker.lastFailure
                }
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
        held.heldUntil = breaker.nextProbeAt(now)
        return held
    }
}
