package import Dispatcher
import Postgres
import Synchronization
package import UpstreamKit
package import Vocabulary

extension PostgresDeliveryStore {
    package func claim(_ request: ClaimRequest) async throws(StoreError) -> [Delivery] {
        try await takeFromOthers(after: request.lease)
        var found: [Delivery] = []
        do throws(StoreError) {
            try await claim(request, into: &found)
        } catch {
            // What earlier statements have leased is ours all the same.
            if found.isEmpty { throw error }
        }
        return found
    }

    private func claim(_ request: ClaimRequest, into found: inout [Delivery]) async throws(StoreError) {
        if request.isForSuspects {
            try await claimSuspects(request, into: &found)
        } else if request.isForUntried {
            try await claimUntried(request, into: &found)
        } else if request.isOrdered {
            try await claimByDevice(request, into: &found)
        } else {
            try await claimDue(request, into: &found)
        }
    }

    /// Records that a delivery of this device was settled outside this store: the next one may be claimed.
    package func freed(_ device: DeviceKey, of handler: String, isReplayed: Bool) {
        let settled = DueDevice(device: device.digest, isReplayed: isReplayed)
        walks.withLock { $0.devices[handler]?.settled([settled]) }
    }

    /// Claims by device for an ordered handler, then what has no device.
    private func claimSuspects(_ request: ClaimRequest, into found: inout [Delivery]) async throws(StoreError) {
        if request.isOrdered {
            let suspects = ClaimParameters(request: request)
            found += try await claimLocked(ClaimStatements.deviceSuspects, suspects)?.values ?? []
        }
        guard let rest = request.rest(after: found) else { return }
        let others = ClaimParameters(request: rest, isWithoutDevice: request.isOrdered)
        found += try await claim(ClaimStatements.suspects, others).values
    }

    private func claimDue(_ request: ClaimRequest, into found: inout [Delivery]) async throws(StoreError) {
        let name = request.handler
        let look = walks.withLock { walks in
            let front = walks.due[name, default: ClaimWalk()].front
            // The first claim starts at the front: nothing is behind it.
            guard front != .start else { return nil as ClaimParameters? }
            let replayedFront = walks.replayed[name]?.front ?? .start
            return walks.due[name]?.look(at: .now).map {
                ClaimParameters(request: request, place: front, replayedPlace: replayedFront, keys: $0)
            }
        }
        if let piece = look {
            let part = try await claim(ClaimStatements.behind, piece)
            found += part.values
            let isExhausted = request.fits(part.values)
            walks.withLock { $0.due[name]?.looked(isExhausted: isExhausted, part.surroundings) }
        }
        guard let rest = request.rest(after: found) else { return }
        let next = walks.withLock { walks in
            ClaimParameters(
                request: rest,
                place: walks.due[name]?.front ?? .start,
                replayedPlace: walks.replayed[name]?.front ?? .start
            )
        }
        let part = try await claim(ClaimStatements.ahead, next)
        found += part.values
        let left = rest.left(after: part.values)
        walks.withLock { $0.claimed(part, left: (left.live, left.replayed), of: name) }
    }

    // MARK: By device

    /// How often a claim searches for devices, 1,000 deliveries each time.
    private static let rounds = 20

    private func claimByDevice(_ request: ClaimRequest, into found: inout [Delivery]) async throws(StoreError) {
        let name = request.handler
        guard try await claimPieces(request, into: &found) else { return }
        var isAllKnown = false
        for _ in 0..<Self.rounds {
            guard let rest = request.rest(after: found) else { break }
            if !isAllKnown, walks.withLock({ $0.devices[name]?.wantsLive ?? true }) {
                isAllKnown = try await findDevices(rest)
            }
            let (chosen, areAhead) = walks.withLock { $0.devices[name]?.take(for: rest) ?? ([], false) }
            guard !chosen.isEmpty else {
                guard isAllKnown else { continue }
                break
            }
            let giveBack: @Sendable () -> Void = {
                self.walks.withLock { $0.devices[name]?.add(chosen, isLive: areAhead) }
            }
            do throws(StoreError) {
                let wanted = ClaimParameters(request: rest, devices: chosen)
                let part = try await claimLocked(ClaimStatements.devices, wanted)
                guard let part, !part.surroundings.isPaused else {
                    giveBack()
                    break
                }
                // Whether some did not fit: then all are examined again.
                let isCut = part.values.count < chosen.count && !rest.fits(part.values)
                found += walks.withLock { walks in
                    walks.devices[name]?.claimed(part.values, of: isCut ? [] : chosen) ?? part.values
                }
                guard isCut else { continue }
                giveBack()
                // Not one fits: another search of them would find the same.
                if part.values.isEmpty { break }
            } catch {
                giveBack()
                throw error
            }
        }
    }

    /// Claims from a piece of the whole table: devices that no walk has reached, and deliveries without a device,
    /// stored before the handler was ordered.
    ///
    /// - Returns: False while another session claims for the handler.
    private func claimPieces(_ request: ClaimRequest, into found: inout [Delivery]) async throws(StoreError) -> Bool {
        let name = request.handler
        let pieces = walks.withLock { walks in
            var walk = walks.devices[name] ?? DeviceWalk()
            defer { walks.devices[name] = walk }
            return (devices: walk.due.look(at: .now), old: walk.old.look(at: .now), withReplayed: walk.isReplayExamined)
        }
        if let range = pieces.devices {
            var piece = ClaimParameters(request: request, keys: range)
            // While a replay has more ahead, what it has left behind waits, and takes no live delivery's room.
            if !pieces.withReplayed { piece.request.replayed = 0 }
            guard let part = try await claimLocked(ClaimStatements.deviceRange, piece) else { return false }
            let isExhausted = request.fits(part.values)
            found += walks.withLock { walks in
                walks.devices[name]?.due.looked(isExhausted: isExhausted, part.surroundings)
                return walks.devices[name]?.claimed(part.values) ?? part.values
            }
        }
        guard let keys = pieces.old, let rest = request.rest(after: found) else { return true }
        let piece = ClaimParameters(
            request: rest,
            place: .end,
            replayedPlace: .end,
            keys: keys,
            isWithoutDevice: true
        )
        let part = try await claim(ClaimStatements.behind, piece)
        found += part.values
        let isExhausted = rest.fits(part.values)
        walks.withLock { $0.devices[name]?.old.looked(isExhausted: isExhausted, part.surroundings) }
        return true
    }

    /// Collects the devices of the next due deliveries.
    ///
    /// - Returns: Whether these are all: another search would find the same.
    private func findDevices(_ request: ClaimRequest) async throws(StoreError) -> Bool {
        let (handler, limit) = (request.handler, 1_000)
        let parameters = walks.withLock { walks in
            let walk = walks.devices[handler] ?? DeviceWalk()
            var parameters = ClaimParameters(
                request: request,
                place: walk.due.front,
                replayedPlace: walk.replayed.front
            )
            parameters.request.limit = limit
            parameters.request.replayed = request.replayed > 0 && walk.wantsReplayed ? limit : 0
            return parameters
        }
        let found = try await run { connection throws(PostgresError) in
            try ClaimResult(devices: connection.run(ClaimStatements.due, parameters))
        }
        return walks.withLock { $0.devices[handler]?.found(found, for: parameters.request) ?? true }
    }

    // MARK: Probes

    /// Claims what was never tried: among the newest since the last probe, else in a piece of the whole table.
    ///
    /// So a probe's cost does not grow with the backlog, nor with what was handled under an old snapshot. It may find
    /// nothing though there is something; the next one looks elsewhere.
    private func claimUntried(_ request: ClaimRequest, into found: inout [Delivery]) async throws(StoreError) {
        let name = request.handler
        if !request.isOrdered { found += try await newestUntried(request) }
        guard var rest = request.rest(after: found) else { return }
        let look = walks.withLock { walks in
            // The walk over devices knows the table's size.
            var walk = walks.untried[name] ?? walks.devices[name]?.due ?? ClaimWalk()
            guard let keys = walk.look(at: .now) else { return nil as ClosedRange<Digest128>? }
            walks.untried[name] = walk
            return keys
        }
        guard let keys = look else { return }
        if request.isOrdered {
            let piece = ClaimParameters(request: request, keys: keys)
            guard let part = try await claimLocked(ClaimStatements.deviceUntried, piece) else { return }
            found += part.values
            guard let left = request.rest(after: found) else { return }
            rest = left
        }
        let piece = ClaimParameters(request: rest, keys: keys, isWithoutDevice: request.isOrdered)
        let part = try await claim(ClaimStatements.untriedPiece, piece)
        found += part.values
        let isExhausted = rest.rest(after: part.values) != nil
        walks.withLock { $0.untried[name]?.looked(isExhausted: isExhausted, part.surroundings) }
    }

    private func newestUntried(_ request: ClaimRequest) async throws(StoreError) -> [Delivery] {
        let name = request.handler
        // What is behind was claimed, or examined by the last probe.
        let front = walks.withLock { walks in
            let live = walks.due[name]?.front ?? .start
            return max(min(live, walks.replayed[name]?.front ?? live), walks.untried[name]?.front ?? .start)
        }
        let part = try await claim(ClaimStatements.untried, ClaimParameters(request: request, place: front))
        walks.withLock {
            $0.untried[name, default: ClaimWalk()].claimed(upTo: nil, isFull: false, part.surroundings)
        }
        return part.values
    }

    // MARK: Statements

    private func claim(
        _ statement: ClaimStatements.Statement,
        _ parameters: ClaimParameters
    ) async throws(StoreError) -> ClaimResult<Delivery> {
        try await run { connection throws(PostgresError) in
            // Counts from here: there may have been a wait for the session.
            let deadline = ContinuousClock.now + parameters.request.lease
            return try ClaimResult(try connection.run(statement, parameters), deadline)
        }
    }

    /// Claims under the handler's lock.
    ///
    /// The lock is tried, not waited for: its holder may be frozen, and the database does not know.
    ///
    /// - Returns: nil if another session had the lock at each try; the next claim tries again.
    private func claimLocked(
        _ statement: ClaimStatements.Statement,
        _ parameters: ClaimParameters
    ) async throws(StoreError) -> ClaimResult<Delivery>? {
        var delay = Duration.milliseconds(5)
        while true {
            let claimed = try await run { connection throws(PostgresError) in
                try connection.transaction { connection throws(PostgresError) in
                    let isOurs = try connection.run(ClaimStatements.lockOrdered, parameters).value(Bool.self)
                    let deadline = ContinuousClock.now + parameters.request.lease
                    return isOurs ? try ClaimResult(try connection.run(statement, parameters), deadline) : nil
                }
            }
            if let claimed { return claimed }
            // A claim takes milliseconds. The session is released meanwhile, so that nobody waits for it.
            guard delay < .milliseconds(300), (try? await Task.sleep(for: delay)) != nil else { return nil }
            delay *= 2
        }
    }
}

/// The positions of this store's claims, by handler.
struct ClaimWalks: Sendable {
    /// The walks over live deliveries.
    var due: [String: ClaimWalk] = [:]
    /// The walks over replayed deliveries.
    var replayed: [String: ClaimWalk] = [:]
    var devices: [String: DeviceWalk] = [:]
    /// The walks of probes, for what was never tried.
    var untried: [String: ClaimWalk] = [:]
    /// When blocks of dead workers were last looked for.
    var unpacked: ContinuousClock.Instant?
    /// Whether a claim is looking for them: others don't wait for it.
    var isUnpacking = false

    /// Records a claim ahead of the fronts, and whether it has left more of each kind; nil if it did not look for these.
    mutating func claimed(
        _ part: ClaimResult<Delivery>,
        left: (live: Bool, replayed: Bool?),
        of handler: String
    ) {
        due[handler, default: ClaimWalk()].claimed(upTo: part.last.live, isFull: left.live, part.surroundings)
        if let isFull = left.replayed {
            replayed[handler, default: ClaimWalk()].claimed(upTo: part.last.replayed, isFull: isFull, part.surroundings)
        }
    }
}
