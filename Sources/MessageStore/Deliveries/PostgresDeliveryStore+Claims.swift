package import Pipeline
import Postgres
import Synchronization
package import UpstreamKit
import Vocabulary

extension PostgresDeliveryStore {
    package func claim(_ request: ClaimRequest) async throws(StoreError) -> [Delivery] {
        let deadline = ContinuousClock.now + request.lease
        guard !request.isForSuspects else { return try await claimSuspects(request, deadline) }
        guard !request.isForUntried else { return try await claimUntried(request, deadline) }
        guard request.isOrdered else { return try await claimDue(request, deadline) }
        return try await claimByDevice(request, deadline)
    }

    /// A delivery of this device has been settled, so that the next one may be claimed.
    ///
    /// For what settles deliveries past this store.
    package func freed(_ device: DeviceKey, of handler: String) {
        walks.withLock { $0.devices[handler]?.add([device.digest]) }
    }

    /// Claims by device where the handler goes by device, then what has none.
    private func claimSuspects(
        _ request: ClaimRequest,
        _ deadline: ContinuousClock.Instant
    ) async throws(StoreError) -> [Delivery] {
        var found: [Delivery] = []
        if request.isOrdered {
            found = try await claimLocked(ClaimStatements.deviceSuspects, request, request.limit, deadline).deliveries
            guard found.count < request.limit else { return found }
        }
        return try await found
            + claim(ClaimStatements.suspects, request, request.limit - found.count, deadline) {
                $0.append(request.isOrdered)
            }.deliveries
    }

    private func claimDue(
        _ request: ClaimRequest,
        _ deadline: ContinuousClock.Instant
    ) async throws(StoreError) -> [Delivery] {
        let name = request.handler
        let look = walks.withLock { walks in
            let front = walks.due[name, default: ClaimWalk()].front
            // Nothing is behind a claim that is the first.
            guard front != .start, let keys = walks.due[name]?.look(at: .now) else { return nil as Look? }
            return Look(keys: keys, end: front, isWithoutDevice: false)
        }
        var found: [Delivery] = []
        if let look {
            let part = try await claimBehind(request, look, deadline)
            found = part.deliveries
            let isExhausted = found.count < request.limit
            walks.withLock { $0.due[name]?.looked(isExhausted: isExhausted, part.surroundings) }
        }
        guard found.count < request.limit else { return found }
        let limit = request.limit - found.count
        let front = walks.withLock { $0.due[name]?.front } ?? .start
        let part = try await claim(ClaimStatements.ahead, request, limit, deadline) { $0.append(front) }
        let isFull = part.deliveries.count >= limit
        walks.withLock {
            $0.due[name, default: ClaimWalk()].claimed(upTo: part.last, isFull: isFull, part.surroundings)
        }
        return found + part.deliveries
    }

    /// A look at a piece of the whole table.
    private struct Look: Sendable {
        var keys: ClosedRange<Digest128>
        var end: ClaimPlace
        var isWithoutDevice: Bool
    }

    private func claimBehind(
        _ request: ClaimRequest,
        _ look: Look,
        _ deadline: ContinuousClock.Instant
    ) async throws(StoreError) -> Claimed {
        try await claim(ClaimStatements.behind, request, request.limit, deadline) {
            $0.append(look.end)
            $0.append(look.keys)
            $0.append(look.isWithoutDevice)
        }
    }

    // MARK: By device

    /// How often a claim goes on looking for devices, a thousand deliveries each time.
    private static let rounds = 20

    private func claimByDevice(
        _ request: ClaimRequest,
        _ deadline: ContinuousClock.Instant
    ) async throws(StoreError) -> [Delivery] {
        let name = request.handler
        var found = try await claimPieces(request, deadline)
        var isAllKnown = false
        for _ in 0..<Self.rounds {
            guard found.count < request.limit else { break }
            let room = request.limit - found.count
            var devices = walks.withLock { $0.devices[name]?.take(room) ?? [] }
            if devices.isEmpty {
                guard !isAllKnown else { break }
                isAllKnown = try await findDevices(name)
                devices = walks.withLock { $0.devices[name]?.take(room) ?? [] }
                guard !devices.isEmpty else { break }
            }
            let chosen = devices
            let giveBack: @Sendable () -> Void = { self.walks.withLock { $0.devices[name]?.add(chosen) } }
            do throws(StoreError) {
                let part = try await claimLocked(ClaimStatements.devices, request, room, deadline) {
                    $0.append(uuids: chosen)
                }
                if part.surroundings.isPaused {
                    giveBack()
                    break
                }
                found += part.deliveries
            } catch {
                giveBack()
                throw error
            }
        }
        return found
    }

    /// Claims from a piece of the whole: devices that nobody has followed, and what has no device because it is from before
    /// the handler went by device.
    private func claimPieces(
        _ request: ClaimRequest,
        _ deadline: ContinuousClock.Instant
    ) async throws(StoreError) -> [Delivery] {
        let name = request.handler
        let pieces = walks.withLock { walks in
            var walk = walks.devices[name] ?? DeviceWalk()
            defer { walks.devices[name] = walk }
            return (devices: walk.due.look(at: .now), old: walk.old.look(at: .now))
        }
        var found: [Delivery] = []
        if let range = pieces.devices {
            let part = try await claimLocked(ClaimStatements.deviceRange, request, request.limit, deadline) {
                $0.append(range)
            }
            found = part.deliveries
            let isExhausted = found.count < request.limit
            walks.withLock { $0.devices[name]?.due.looked(isExhausted: isExhausted, part.surroundings) }
        }
        guard let keys = pieces.old, found.count < request.limit else { return found }
        var rest = request
        rest.limit -= found.count
        let part = try await claimBehind(rest, Look(keys: keys, end: .end, isWithoutDevice: true), deadline)
        let isExhausted = part.deliveries.count < rest.limit
        walks.withLock { $0.devices[name]?.old.looked(isExhausted: isExhausted, part.surroundings) }
        return found + part.deliveries
    }

    /// Notes the devices of the next deliveries that are due.
    ///
    /// - Returns: Whether these are all, so that another look would find the same.
    private func findDevices(_ handler: String) async throws(StoreError) -> Bool {
        let limit = 1_000
        let front = walks.withLock { $0.devices[handler]?.due.front } ?? .start
        let found = try await run(claims) { connection throws(PostgresError) in
            var parameters = PostgresParameters()
            parameters.append(handler)
            parameters.append(Int64(limit))
            parameters.append(front)
            return DueDevices(try connection.execute(ClaimStatements.due, parameters))
        }
        walks.withLock { walks in
            walks.devices[handler]?.found(
                upTo: found.last,
                isFull: found.devices.count >= limit,
                found.surroundings
            )
            walks.devices[handler]?.add(found.devices)
        }
        return found.devices.count < limit || found.surroundings.isPaused
    }

    func claim(
        _ statement: PostgresStatement,
        _ request: ClaimRequest,
        _ limit: Int,
        _ deadline: ContinuousClock.Instant,
        _ add: @Sendable (inout PostgresParameters) -> Void
    ) async throws(StoreError) -> Claimed {
        try await run(claims) { connection throws(PostgresError) in
            var parameters = Self.parameters(request, limit)
            add(&parameters)
            return Claimed(try connection.execute(statement, parameters), deadline)
        }
    }

    func claimLocked(
        _ statement: PostgresStatement,
        _ request: ClaimRequest,
        _ limit: Int,
        _ deadline: ContinuousClock.Instant,
        _ add: @Sendable (inout PostgresParameters) -> Void = { _ in }
    ) async throws(StoreError) -> Claimed {
        try await run(claims) { connection throws(PostgresError) in
            try connection.transaction { connection throws(PostgresError) in
                var lock = PostgresParameters()
                lock.append(request.handler)
                _ = try connection.execute(ClaimStatements.lockOrdered, lock)
                var parameters = Self.parameters(request, limit)
                add(&parameters)
                return Claimed(try connection.execute(statement, parameters), deadline)
            }
        }
    }

    static func parameters(_ request: ClaimRequest, _ limit: Int) -> PostgresParameters {
        var parameters = PostgresParameters()
        parameters.append(request.handler)
        parameters.append(Int64(limit))
        parameters.append(request.owner)
        parameters.append(request.lease.microseconds)
        return parameters
    }
}

/// Where this store's claims are, by handler.
struct ClaimWalks: Sendable {
    var due: [String: ClaimWalk] = [:]
    var devices: [String: DeviceWalk] = [:]
    /// Where probes look for what was never tried.
    var untried: [String: ClaimWalk] = [:]
}

/// What a claim came to.
struct Claimed: Sendable {
    var deliveries: [Delivery]
    var last: ClaimPlace?
    var surroundings: ClaimSurroundings

    init(_ result: PostgresResult, _ deadline: ContinuousClock.Instant) {
        deliveries = (0..<result.count).compactMap { row in
            guard let key = result.digest(row, 0), let token = result.integer(row, 1) else { return nil }
            return Delivery(
                content: Self.message(result, row, key).map(Delivery.Content.stored) ?? .missing,
                messageKey: key,
                attempts: Int(result.integer(row, 2) ?? 0),
                crashes: Int(result.integer(row, 3) ?? 0),
                replayID: result.text(row, 4),
                lease: Lease(token: token, deadline: deadline)
            )
        }
        last = deliveries.isEmpty ? nil : result.place(result.count - 1, next: 14, received: 13, key: 0)
        surroundings = result.surroundings(15)
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
}

/// Devices with something due.
private struct DueDevices: Sendable {
    var devices: [Digest128]
    var last: ClaimPlace?
    var surroundings: ClaimSurroundings

    init(_ result: PostgresResult) {
        devices = (0..<result.count).compactMap { result.digest($0, 0) }
        last = devices.isEmpty ? nil : result.place(result.count - 1, next: 1, received: 2, key: 3)
        surroundings = result.surroundings(4)
    }
}

extension PostgresResult {
    fileprivate func place(_ row: Int, next: Int, received: Int, key: Int) -> ClaimPlace? {
        guard let due = timestamp(row, next), let receivedAt = timestamp(row, received), let key = digest(row, key)
        else {
            return nil
        }
        return ClaimPlace(nextAttemptAt: due, receivedAt: receivedAt, key: key)
    }

    fileprivate func surroundings(_ column: Int) -> ClaimSurroundings {
        ClaimSurroundings(
            now: timestamp(0, column) ?? 0,
            entries: integer(0, column + 1) ?? 0,
            isPaused: bool(0, column + 2) ?? true
        )
    }
}

extension PostgresParameters {
    mutating func append(_ place: ClaimPlace) {
        append(timestamp: place.nextAttemptAt)
        append(timestamp: place.receivedAt)
        append(uuidHigh: place.key.high, low: place.key.low)
    }

    mutating func append(_ keys: ClosedRange<Digest128>) {
        append(uuidHigh: keys.lowerBound.high, low: keys.lowerBound.low)
        append(uuidHigh: keys.upperBound.high, low: keys.upperBound.low)
    }
}
