import Dispatcher
import Synchronization
import Vocabulary

extension PostgresDeliveryStore {
    /// Claims what was never tried: among the newest since the last probe, else in a piece of the whole table.
    ///
    /// So a probe's cost does not grow with the backlog, nor with what was handled under an old snapshot. It may find
    /// nothing though there is something; the next one looks elsewhere.
    func claimUntried(
        _ request: ClaimRequest
    ) async throws(StoreError) -> [Delivery] {
        let name = request.handler
        var found = request.isOrdered ? [] : try await newestUntried(request)
        guard var rest = request.rest(after: found) else { return found }
        let look = walks.withLock { walks in
            // The walk over devices knows the table's size.
            var walk = walks.untried[name] ?? walks.devices[name]?.due ?? ClaimWalk()
            guard let keys = walk.look(at: .now) else { return nil as ClosedRange<Digest128>? }
            walks.untried[name] = walk
            return keys
        }
        guard let keys = look else { return found }
        if request.isOrdered {
            let part = try await claimLocked(ClaimStatements.deviceUntried, request) { $0.keys = keys }
            guard let part else { return [] }
            found = part.deliveries
            guard let left = request.rest(after: found) else { return found }
            rest = left
        }
        let part = try await claim(ClaimStatements.untriedPiece, rest) {
            $0.keys = keys
            $0.isWithoutDevice = request.isOrdered
        }
        let isExhausted = rest.rest(after: part.deliveries) != nil
        walks.withLock { $0.untried[name]?.looked(isExhausted: isExhausted, part.surroundings) }
        return found + part.deliveries
    }

    private func newestUntried(
        _ request: ClaimRequest
    ) async throws(StoreError) -> [Delivery] {
        let name = request.handler
        // What is behind was claimed, or examined by the last probe.
        let front = walks.withLock {
            max($0.due[name, default: ClaimWalk()].front, $0.untried[name, default: ClaimWalk()].front)
        }
        let part = try await claim(ClaimStatements.untried, request) { $0.place = front }
        walks.withLock {
            $0.untried[name, default: ClaimWalk()].claimed(upTo: nil, isFull: false, part.surroundings)
        }
        return part.deliveries
    }
}
