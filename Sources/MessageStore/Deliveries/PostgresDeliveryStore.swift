package import Pipeline
package import Postgres
import Synchronization
package import UpstreamKit

/// The dispatcher's tables in PostgreSQL.
///
/// Three connections, each made when it is first needed: claims wait for no settlement, and neither for the listener.
package final class PostgresDeliveryStore: DeliveryStore {
    private let settings: PostgresSettings
    private let claims: PostgresClient
    private let settlements: PostgresClient
    /// By handler that goes by device: the last device that a claim came to.
    private let devices = Mutex<[String: Digest128]>([:])

    package init(_ settings: PostgresSettings) {
        var settings = settings
        settings.findsRowsByIndex = true
        self.settings = settings
        claims = PostgresClient(settings)
        settlements = PostgresClient(settings)
    }

    /// Ends the sessions; later calls make others.
    package func close() async {
        await claims.close()
        await settlements.close()
    }

    // MARK: Handlers

    package func register(_ handlers: [HandlerRegistration]) async throws(StoreError) -> Int64 {
        try await run(claims) { connection throws(PostgresError) in
            try connection.transaction { connection throws(PostgresError) in
                let pairs = handlers.flatMap { handler in handler.categories.names.map { (handler, $0) } }
                var parameters = PostgresParameters()
                parameters.append(texts: handlers.map(\.name))
                _ = try connection.execute(DeliveryStatements.registerHandlers, parameters)
                parameters.append(texts: pairs.map(\.0.name))
                parameters.append(texts: pairs.map(\.1))
                _ = try connection.execute(DeliveryStatements.dropSubscriptions, parameters)
                var added = PostgresParameters()
                added.append(texts: pairs.map(\.0.name))
                added.append(texts: pairs.map(\.1))
                added.append(flags: pairs.map { $0.0.ordering == .device })
                _ = try connection.execute(DeliveryStatements.addSubscriptions, added)
                return try connection.execute(DeliveryStatements.nextToken, PostgresParameters()).integer(0, 0) ?? 0
            }
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
            parameters.append(Int64(Backlog.depthLimit))
            let result = try connection.execute(DeliveryStatements.backlog, parameters)
            return (0..<result.count).map { row in
                Backlog(
                    handler: result.text(row, 0) ?? "",
                    depth: Int(result.integer(row, 1) ?? 0),
                    oldestAge: max(0, Double(result.integer(row, 2) ?? 0) / 1e6),
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

    // MARK: Claims

    package func claim(_ request: ClaimRequest) async throws(StoreError) -> [Delivery] {
        let deadline = ContinuousClock.now + request.lease
        var deliveries: [Delivery] = []
        if request.isOrdered {
            let start = devices.withLock { $0[request.handler] } ?? Digest128(high: 0, low: 0)
            deliveries = try await claimOrdered(request, after: start, deadline)
            // Past the last device: from the first again.
            if deliveries.count < request.limit, start != Digest128(high: 0, low: 0) {
                var rest = request
                rest.limit -= deliveries.count
                deliveries += try await claimOrdered(rest, after: Digest128(high: 0, low: 0), deadline)
            }
            let last = deliveries.count < request.limit ? nil : deliveries.compactMap(\.device).max()
            devices.withLock { $0[request.handler] = last }
            guard deliveries.count < request.limit else { return deliveries }
        }
        // Rows from before the handler went by device carry none.
        let limit = request.limit - deliveries.count
        return try await deliveries
            + run(claims) { connection throws(PostgresError) in
                var parameters = Self.parameters(request, limit: limit)
                parameters.append(request.isOrdered)
                let statement =
                    if request.isForSuspects {
                        DeliveryStatements.claimSuspects
                    } else if request.isForUntried {
                        DeliveryStatements.claimUntried
                    } else {
                        DeliveryStatements.claim
                    }
                return Self.deliveries(try connection.execute(statement, parameters), deadline)
            }
    }

    private func claimOrdered(
        _ request: ClaimRequest,
        after device: Digest128,
        _ deadline: ContinuousClock.Instant
    ) async throws(StoreError) -> [Delivery] {
        try await run(claims) { connection throws(PostgresError) in
            try connection.transaction { connection throws(PostgresError) in
                var lock = PostgresParameters()
                lock.append(request.handler)
                _ = try connection.execute(DeliveryStatements.lockOrdered, lock)
                var parameters = Self.parameters(request, limit: request.limit)
                parameters.append(uuidHigh: device.high, low: device.low)
                let statement =
                    if request.isForSuspects {
                        DeliveryStatements.claimOrderedSuspects
                    } else if request.isForUntried {
                        DeliveryStatements.claimOrderedUntried
                    } else {
                        DeliveryStatements.claimOrdered
                    }
                return Self.deliveries(try connection.execute(statement, parameters), deadline)
            }
        }
    }

    private static func parameters(_ request: ClaimRequest, limit: Int) -> PostgresParameters {
        var parameters = PostgresParameters()
        parameters.append(request.handler)
        parameters.append(Int64(limit))
        parameters.append(request.owner)
        parameters.append(request.lease.microseconds)
        return parameters
    }

    private static func deliveries(_ result: PostgresResult, _ deadline: ContinuousClock.Instant) -> [Delivery] {
        (0..<result.count).compactMap { row in
            guard let key = result.digest(row, 0), let token = result.integer(row, 1) else { return nil }
            return Delivery(
                content: message(result, row, key).map(Delivery.Content.stored) ?? .missing,
                messageKey: key,
                attempts: Int(result.integer(row, 2) ?? 0),
                crashes: Int(result.integer(row, 3) ?? 0),
                replayID: result.text(row, 4),
                lease: Lease(token: token, deadline: deadline)
            )
        }
    }

    private static func message(_ result: PostgresResult, _ row: Int, _ key: Digest128) -> UpstreamMessage? {
        guard let id = result.text(row, 5), let sender = result.text(row, 6), let category = result.text(row, 7),
            let token = result.text(row, 8), let device = result.digest(row, 9),
            let receivedAt = result.timestamp(row, 13)
        else { return nil }
        return UpstreamMessage(
            messageKey: MessageKey(key),
            messageID: id,
            senderID: sender,
            category: category,
            registrationToken: RegistrationToken(token),
            deviceKey: DeviceKey(device),
            data: result.bytes(row, 10),
            extra: result.bytes(row, 11),
            messageType: result.text(row, 12),
            receivedAtMicroseconds: receivedAt
        )
    }

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

    private func run<T: Sendable>(
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

extension Delivery {
    fileprivate var device: Digest128? {
        guard case .stored(let message) = content else { return nil }
        return message.deviceKey.digest
    }
}
