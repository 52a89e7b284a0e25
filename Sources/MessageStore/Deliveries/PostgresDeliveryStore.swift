package import Pipeline
package import Postgres
import Synchronization
package import UpstreamKit
import Vocabulary

/// The dispatcher's tables in PostgreSQL.
///
/// Three connections, each made when it is first needed: claims wait for no settlement, and neither for the listener.
package final class PostgresDeliveryStore: DeliveryStore {
    let claims: PostgresClient
    let walks = Mutex(ClaimWalks())
    private let settings: PostgresSettings
    private let settlements: PostgresClient
    /// The process for people who look at the table.
    private let worker: String
    /// What was registered last, if anything.
    private let registered = Mutex<Registered?>(nil)

    /// The tables of a database.
    ///
    /// - Parameters:
    ///   - settings: The database.
    ///   - worker: Who asks, for people: host and process id.
    package init(_ settings: PostgresSettings, worker: String = "worker") {
        var settings = settings
        settings.findsRowsByIndex = true
        self.settings = settings
        self.worker = worker
        claims = PostgresClient(settings)
        settlements = PostgresClient(settings)
    }

    /// Takes back what was registered and ends the sessions; later calls make others.
    package func close() async {
        await withdraw()
        await claims.close()
        await settlements.close()
    }

    // MARK: Handlers

    package func register(_ handlers: [HandlerRegistration]) async throws(StoreError) -> Int64 {
        let previous = registered.withLock { $0?.token } ?? 0
        let token = try await run(claims) { connection throws(PostgresError) in
            try connection.transaction { connection throws(PostgresError) in
                let next = try connection.execute(DeliveryStatements.nextToken, PostgresParameters())
                let token = next.integer(0, 0) ?? 0
                let registered = Registered(token: token, handlers: handlers)
                _ = try connection.execute(DeliveryStatements.register, registered.parameters(worker, previous))
                return token
            }
        }
        registered.withLock { $0 = Registered(token: token, handlers: handlers) }
        return token
    }

    /// What this process asks for.
    private struct Registered: Sendable {
        var token: Int64
        var handlers: [HandlerRegistration]

        func parameters(_ worker: String, _ previous: Int64) -> PostgresParameters {
            let pairs = handlers.flatMap { handler in handler.categories.names.map { (handler.name, $0) } }
            var parameters = PostgresParameters()
            parameters.append(previous)
            parameters.append(token)
            parameters.append(worker)
            parameters.append(texts: handlers.map(\.name))
            parameters.append(flags: handlers.map { $0.ordering == .device })
            parameters.append(texts: pairs.map(\.0))
            parameters.append(texts: pairs.map(\.1))
            return parameters
        }
    }

    /// Tells the others that this worker still asks for what it registered.
    private func keepHandlers(_ connection: isolated PostgresConnection) throws(PostgresError) {
        guard let own = registered.withLock({ $0 }) else { return }
        var parameters = PostgresParameters()
        parameters.append(own.token)
        let known = try connection.execute(DeliveryStatements.keep, parameters).integer(0, 0) ?? 0
        guard known < own.handlers.count else { return }
        // Silent for so long that others have counted it out.
        _ = try connection.execute(DeliveryStatements.register, own.parameters(worker, own.token))
    }

    /// Takes back what this worker asked for; without the database, the others find out by its silence.
    private func withdraw() async {
        guard
            let own = registered.withLock({ registered in
                defer { registered = nil }
                return registered
            })
        else { return }
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                _ = try? await self.run(self.settlements) { connection throws(PostgresError) in
                    var parameters = PostgresParameters()
                    parameters.append(own.token)
                    _ = try connection.execute(DeliveryStatements.withdraw, parameters)
                }
            }
            group.addTask { try? await Task.sleep(for: .seconds(1)) }
            await group.next()
            group.cancelAll()
        }
    }

    package func paused(_ handlers: [String]) async throws(StoreError) -> Set<String> {
        try await run(settlements) { connection throws(PostgresError) in
            var parameters = PostgresParameters()
            parameters.append(texts: handlers)
            let result = try connection.execute(DeliveryStatements.paused, parameters)
            return Set((0..<result.count).compactMap { result.text($0, 0) })
        }
    }

    package func pause(_ handler: String, reason: String) async throws(StoreError) {
        try await run(settlements) { connection throws(PostgresError) in
            var parameters = PostgresParameters()
            parameters.append(handler)
            parameters.append(reason)
            _ = try connection.execute(DeliveryStatements.pause, parameters)
        }
    }

    package func backlog(_ handlers: [String]) async throws(StoreError) -> [Backlog] {
        try await run(settlements) { connection throws(PostgresError) in
            var parameters = PostgresParameters()
            parameters.append(texts: handlers)
            _ = try connection.execute(DeliveryStatements.seen, parameters)
            try keepHandlers(connection)
            parameters.append(Int64(Backlog.depthLimit))
            let result = try connection.execute(DeliveryStatements.backlog, parameters)
            return (0..<result.count).map { row in
                Backlog(
                    handler: result.text(row, 0) ?? "",
                    depth: Int(result.integer(row, 1) ?? 0),
                    oldestAge: .microseconds(max(0, result.integer(row, 2) ?? 0)),
                    deadLetters: Int(result.integer(row, 3) ?? 0)
                )
            }
        }
    }

    package func unclaimed() async throws(StoreError) -> [String] {
        try await run(settlements) { connection throws(PostgresError) in
            let result = try connection.execute(DeliveryStatements.unclaimed, PostgresParameters())
            return (0..<result.count).compactMap { result.text($0, 0) }
        }
    }

    // MARK: Leases

    package func extend(
        _ leases: [LeaseReference],
        of handler: String,
        by duration: Duration
    ) async throws(StoreError) -> Set<LeaseReference> {
        try await run(settlements) { connection throws(PostgresError) in
            var parameters = PostgresParameters(capacity: leases.count * 40 + 256)
            parameters.append(handler)
            parameters.append(uuids: leases.map(\.messageKey))
            parameters.append(integers: leases.map(\.token))
            parameters.append(duration.microseconds)
            let result = try connection.withParameters { connection throws(PostgresError) in
                try connection.execute(DeliveryStatements.extend, parameters)
            }
            return Set(
                (0..<result.count).compactMap { row in
                    guard let key = result.digest(row, 0), let token = result.integer(row, 1) else { return nil }
                    return LeaseReference(messageKey: key, token: token)
                }
            )
        }
    }

    // MARK: Notifications

    package func listen(wake: @Sendable () -> Void) async throws(StoreError) {
        do throws(PostgresError) {
            let connection = try await PostgresConnection.open(settings)
            guard await !connection.isPooled else { return await connection.close() }
            try await connection.run { connection throws(PostgresError) in
                try connection.script("LISTEN \(DeliveryStatements.channel)")
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

    func settle<T: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) throws(PostgresError) -> T
    ) async throws(StoreError) -> T {
        try await run(settlements, body)
    }

    func run<T: Sendable>(
        _ client: PostgresClient,
        _ body: @Sendable (isolated PostgresConnection) throws(PostgresError) -> T
    ) async throws(StoreError) -> T {
        do throws(PostgresError) {
            return try await client.run(body)
        } catch {
            throw StoreError(error)
        }
    }
}
