package import Dispatcher
package import Postgres
import Synchronization
package import UpstreamKit
package import Vocabulary

/// The dispatcher's tables in PostgreSQL.
///
/// No call waits for another's locks: each has its own session, as has the listener.
package final class PostgresDeliveryStore: DeliveryStore {
    let sessions: PostgresPool
    let walks = Mutex(ClaimWalks())
    private let settings: PostgresSettings
    /// Whether settlements write the history of attempts.
    let recording: AttemptRecording
    /// Host and process id, for people who read the table.
    private let worker: String
    private let registered = Mutex<Registration?>(nil)

    /// Opens the tables of a database; `worker`, host and process id, is shown to people.
    ///
    /// Without `recording`, settlements write no history of attempts.
    package init(
        _ settings: PostgresSettings,
        worker: String = "worker",
        recording: AttemptRecording? = nil
    ) {
        var settings = settings
        settings.findsRowsByIndex = true
        settings.shortenIdleInTransaction()
        // Sessions are few: if rows of many handlers are locked, the others need them in between.
        settings.lockTimeout = min(settings.lockTimeout, 2_000)
        self.settings = settings
        self.worker = worker
        self.recording = recording ?? AttemptRecording(worker: worker, isWanted: false)
        sessions = PostgresPool(settings, limit: Self.mostSessions(handlers: .max))
    }

    /// The most sessions for this many handlers, without the listener's: three per handler (claim, settlement,
    /// heartbeat), and one for all.
    ///
    /// Bounded, however many handlers there are: fewer wait for locks at the same time.
    package static func mostSessions(handlers: Int) -> Int { 1 + 3 * min(handlers, 6) }

    /// Ends the registration and the sessions; later calls open new ones.
    package func close() async {
        await withdraw()
        await sessions.close()
    }

    // MARK: Handlers

    package func register(_ handlers: [HandlerRegistration]) async throws(StoreError) -> Int64 {
        let previous = registered.withLock { $0?.token } ?? 0
        var own = Registration(previous: previous, token: 0, worker: worker, handlers: handlers)
        own = try await run { [own] connection throws(PostgresError) in
            try connection.transaction { connection throws(PostgresError) in
                var own = own
                own.token = try connection.run(DeliveryStatements.nextToken).value()
                try connection.run(DeliveryStatements.register, own)
                return own
            }
        }
        // Registered again, it is its own predecessor.
        own.previous = own.token
        registered.withLock { [own] in $0 = own }
        return own.token
    }

    /// Sends the registration's heartbeat.
    private func keepHandlers(_ connection: isolated PostgresConnection) throws(PostgresError) {
        guard let own = registered.withLock({ $0 }) else { return }
        // The heartbeat does it as well, but tells nobody.
        try unpackExpired(connection)
        let known = try connection.withParameters { connection throws(PostgresError) in
            try connection.run(DeliveryStatements.followClock, own.token)
            return try connection.run(DeliveryStatements.keep, own.token).value(Int.self)
        }
        guard known < own.handlers.count else { return }
        // Silent for so long that another worker has removed the registration.
        try connection.run(DeliveryStatements.register, own)
    }

    /// Ends the registration; if the database is away, other workers notice the missing heartbeat.
    private func withdraw() async {
        guard
            let own = registered.withLock({ registered in
                defer { registered = nil }
                return registered
            })
        else { return }
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                _ = try? await self.run { connection throws(PostgresError) in
                    try connection.run(DeliveryStatements.withdraw(own.token))
                }
            }
            group.addTask { try? await Task.sleep(for: .seconds(1)) }
            await group.next()
            group.cancelAll()
        }
    }

    package func controls(_ handlers: [String]) async throws(StoreError) -> [HandlerControl] {
        try await run { connection throws(PostgresError) in
            try connection.run(DeliveryStatements.controls, handlers).rows {
                (
                    name: String,
                    isPaused: Bool,
                    hold: Duration?,
                    resumedAt: Timestamp?,
                    isOpen: Bool?,
                    changedAt: Timestamp?
                ) in
                var control = HandlerControl(handler: name)
                (control.isPaused, control.hold) = (isPaused, hold)
                control.resumption = resumedAt?.microseconds ?? 0
                if let isOpen, let changedAt {
                    control.circuit = CircuitChange(isOpen: isOpen, id: changedAt.microseconds)
                }
                return control
            }
        }
    }

    package func share(_ request: ShareRequest) async throws(StoreError) -> Int? {
        guard let token = registered.withLock({ $0?.token }) else { return nil }
        // Shares add up to the whole only where each sees those given before it.
        return try await run { connection throws(PostgresError) in
            try connection.withParameters { connection throws(PostgresError) in
                try connection.run(DeliveryStatements.share(request, of: token)).value()
            }
        }
    }

    package func hold(_ handler: String, _ hold: HandlerHold) async throws(StoreError) {
        _ = try await run { connection throws(PostgresError) in
            try connection.run(DeliveryStatements.hold(handler, hold))
        }
    }

    package func changeCircuit(_ handler: String, isOpen: Bool) async throws(StoreError) -> CircuitChange? {
        guard let token = registered.withLock({ $0?.token }) else { return nil }
        return try await run { connection throws(PostgresError) in
            let changed = try connection.run(DeliveryStatements.changeCircuit(handler, isOpen: isOpen, by: token))
                .firstRow { $0 as Timestamp }
            return changed.map { CircuitChange(isOpen: isOpen, id: $0.microseconds) }
        }
    }

    package func pause(_ handler: String, reason: String) async throws(StoreError) {
        _ = try await run { connection throws(PostgresError) in
            try connection.run(HandlerStatements.pause(handler, for: nil, reason: reason))
        }
    }

    package func keep(_ handlers: [String]) async throws(StoreError) {
        try await run { connection throws(PostgresError) in
            try connection.run(DeliveryStatements.seen, handlers)
            try keepHandlers(connection)
        }
    }

    package func backlog(_ handlers: [String]) async throws(StoreError) -> [Backlog] {
        try await run { connection throws(PostgresError) in
            let parameters = BacklogParameters(handlers: handlers, limit: Backlog.depthLimit)
            return try connection.run(DeliveryStatements.backlog, parameters).rows {
                // The age is null if nothing waits.
                Backlog(handler: $0, depth: $1, oldestAge: max(.zero, $2 as Duration? ?? .zero), deadLetters: $3)
            }
        }
    }

    package func unclaimed() async throws(StoreError) -> [String] {
        try await run { connection throws(PostgresError) in
            try connection.run(DeliveryStatements.unclaimed, ()).rows { $0 }
        }
    }

    // MARK: Leases

    package func extend(
        _ leases: [LeaseReference],
        of handler: String,
        by duration: Duration
    ) async throws(StoreError) -> Set<LeaseReference> {
        var rows = SettlementRows(handler: handler, lease: duration)
        rows.keys = leases.map(\.messageKey)
        rows.tokens = leases.map(\.token)
        let parameters = rows
        return try await run { connection throws(PostgresError) in
            let result = try connection.withParameters { connection throws(PostgresError) in
                try connection.run(DeliveryStatements.extend, parameters)
            }
            return Set(try result.rows { LeaseReference(messageKey: $0, token: $1) })
        }
    }

    // MARK: Notifications

    package func listen(wake: @Sendable () -> Void) async throws(StoreError) {
        do throws(PostgresError) {
            let connection = try await PostgresConnection.open(settings, explainsRefusal: false)
            guard await !connection.isPooled else { return await connection.close() }
            _ = try await connection.run { connection throws(PostgresError) in
                try connection.run(DeliveryStatements.listen)
            }
            while true {
                let isNotified = try await connection.run { connection throws(PostgresError) in
                    try connection.waitForNotification()
                }
                if isNotified { wake() }
            }
        } catch {
            throw StoreError(error)
        }
    }

    // MARK: Inside

    func run<T: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) throws(PostgresError) -> T
    ) async throws(StoreError) -> T {
        do throws(PostgresError) {
            return try await sessions.run(body)
        } catch {
            throw StoreError(error)
        }
    }
}
