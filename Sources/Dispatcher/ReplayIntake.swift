package import UpstreamKit
package import Vocabulary

/// Hands stored messages of a replay in this worker to its handlers, without a row and a claim for each.
package protocol ReplayIntake: Sendable {
    /// Offers room for at most `count` deliveries before each step, in number and bytes, or says what to do instead.
    ///
    /// An offer is followed by exactly one call of ``committed(_:replayed:by:)`` or ``withdrawn(_:)``.
    func offer(toReplay count: Int, to handlers: [String]) -> ReplayRoom

    /// Hands over a committed step, with the offer's block of each handler; `deliveries` are what these hold.
    func committed(_ offer: LeaseOffer, replayed deliveries: [ReplayedMessage], by replay: Digest128)

    /// Withdraws an offer: the step has not committed, or its outcome is unknown.
    func withdrawn(_ offer: LeaseOffer)
}

package enum ReplayRoom: Sendable {
    /// Up to this many, under this lease.
    case offer(LeaseOffer, Int)
    /// None: the handlers here have enough to do for now.
    case full
    /// The handlers take from the table: they are ordered, database functions, paused, failing, slow, or elsewhere.
    case rows
}

package struct ReplayedMessage: Sendable {
    package var handler: String
    package var message: UpstreamMessage

    package init(handler: String, message: UpstreamMessage) {
        (self.handler, self.message) = (handler, message)
    }
}

extension DispatchIntake: ReplayIntake {
    func offer(toReplay count: Int, to handlers: [String]) -> ReplayRoom {
        let chosen = lanes.filter { handlers.contains($0.settings.name) }
        guard processToken != 0, chosen.count == handlers.count, shared.settings.allowsBlocks else { return .rows }
        var (room, bytes) = (count, Int.max)
        for lane in chosen {
            guard let own = lane.inspect({ $0.replayRoom }) else { return .rows }
            (room, bytes) = (min(room, own.count), min(bytes, own.bytes))
        }
        // Small steps cost as much as large ones.
        guard room >= min(count, 100) else { return .full }
        var offer = offer(count: room, bytes: bytes)
        offer.handlers = handlers
        for lane in chosen where lane.withMachine(wake: 0, { $0.reserve(room, bytes: bytes) }) {
            offer.lanes.append(lane.index)
        }
        guard offer.lanes.count == chosen.count else {
            withdrawn(offer)
            return .full
        }
        offer.packed = handlers
        offer.block = nextBlock()
        return .offer(offer, room)
    }

    func committed(_ offer: LeaseOffer, replayed messages: [ReplayedMessage], by replay: Digest128) {
        let lease = Lease(token: offer.token, deadline: offer.deadline, block: offer.block)
        let id = replay.description
        for lane in offer.lanes.map({ lanes[$0] }) {
            let deliveries = messages.compactMap { entry in
                guard entry.handler == lane.settings.name else { return nil as Delivery? }
                let key = entry.message.messageKey.digest
                return Delivery(content: .stored(entry.message), messageKey: key, replayID: id, lease: lease)
            }
            handOver(deliveries, offer, lane)
        }
    }
}
