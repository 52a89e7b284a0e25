import Synchronization
import UpstreamKit
package import Vocabulary

/// Hands fresh messages from ingest to the dispatcher, on the ingest path: without a query, and nothing here blocks.
package protocol DeliveryIntake: Sendable {
    /// Offers a lease for the handlers of this worker with room, before each attempt to commit a batch.
    ///
    /// Every offer is followed by exactly one call of ``committed(_:messages:outcomes:)`` or ``withdrawn(_:)``. `bytes`
    /// is the batch's estimated memory.
    func offer(for count: Int, bytes: Int) -> LeaseOffer

    func committed(_ offer: LeaseOffer, messages: [IncomingMessage], outcomes: [StoreOutcome])

    /// Withdraws an offer: the batch has not committed, or its outcome is unknown.
    func withdrawn(_ offer: LeaseOffer)

    /// Reports that the database does not know the registration of an offer, which is to be renewed.
    func registrationLost(of offer: LeaseOffer)
}

/// The lease under which deliveries are inserted for handlers that have room in this worker.
package struct LeaseOffer: Sendable {
    /// The handlers whose deliveries are to be leased to this worker.
    package var handlers: [String]
    /// All handlers of this worker: other workers are notified of deliveries for any other handler.
    package var local: [String]
    package var owner: String
    /// The fencing token of all rows that this process inserts; later claims have greater ones.
    package var token: Int64
    /// How long the lease lasts unless it is extended.
    package var duration: Duration
    /// The ``handlers`` whose deliveries are kept as one block each.
    package var packed: [String] = []
    /// The number of these blocks, unique in this process.
    package var block: Int64 = 0
    var lanes: [Int] = []
    /// The capacity reserved in each lane.
    var count = 0
    /// The bytes reserved in each lane.
    package var bytes = 0
    /// The earliest end of the lease.
    var deadline = ContinuousClock.now

    /// No lease: all deliveries wait in the table, and other workers are notified.
    package static let none = LeaseOffer(handlers: [], local: [], owner: "", token: 0, duration: .zero)

    /// Nothing is leased, and the registration is looked for all the same.
    package var withoutLease: LeaseOffer {
        var offer = LeaseOffer(handlers: [], local: local, owner: owner, token: token, duration: duration)
        offer.deadline = deadline
        return offer
    }

    package init(handlers: [String], local: [String], owner: String, token: Int64, duration: Duration) {
        (self.handlers, self.local, self.owner, self.token) = (handlers, local, owner, token)
        self.duration = duration
    }
}

final class DispatchIntake: DeliveryIntake {
    let lanes: [DispatchLane]
    let names: [String]
    let shared: DispatchShared
    private let lastBlock = Atomic<Int64>(0)
    /// The token from registration; nil before.
    private let token = Mutex<Int64?>(nil)

    init(_ lanes: [DispatchLane], _ shared: DispatchShared) {
        (self.lanes, self.shared) = (lanes, shared)
        names = lanes.map(\.settings.name)
    }

    func open(token: Int64) {
        self.token.withLock { $0 = token }
    }

    /// The token of this process; 0 before the handlers are registered.
    var processToken: Int64 { token.withLock(\.self) ?? 0 }

    func nextBlock() -> Int64 { lastBlock.wrappingAdd(1, ordering: .relaxed).newValue }

    /// Gives a lane the deliveries of its block, or of its leased rows.
    func handOver(_ deliveries: [Delivery], _ offer: LeaseOffer, _ lane: DispatchLane) {
        if !deliveries.isEmpty, offer.packed.contains(lane.settings.name) {
            lane.settler.open(block: offer.block, token: offer.token, count: deliveries.count)
        }
        let settlements = lane.withMachine(wake: deliveries.count) {
            $0.handOver(deliveries, reserved: offer.count, bytes: offer.bytes, now: shared.clock.now())
        }
        lane.release(settlements)
    }

    /// An offer without lanes, for all handlers of this process.
    func offer(count: Int, bytes: Int) -> LeaseOffer {
        let settings = shared.settings
        var offer = LeaseOffer(
            handlers: [],
            local: names,
            owner: settings.owner,
            token: processToken,
            duration: settings.lease
        )
        (offer.count, offer.bytes) = (count, bytes)
        offer.deadline = shared.clock.now() + settings.lease
        return offer
    }

    var isOpen: Bool { token.withLock { $0 != nil } }

    func offer(for count: Int, bytes: Int) -> LeaseOffer {
        var offer = offer(count: count, bytes: bytes)
        guard offer.token != 0 else { return offer }
        for lane in lanes where lane.withMachine(wake: 0, { $0.reserve(count, bytes: bytes) }) {
            offer.lanes.append(lane.index)
            offer.handlers.append(names[lane.index])
        }
        if count >= shared.settings.blockLeast, shared.settings.allowsBlocks {
            offer.packed = offer.lanes.filter { lanes[$0].settings.isPackable }.map { names[$0] }
            if !offer.packed.isEmpty { offer.block = nextBlock() }
        }
        return offer
    }

    func committed(_ offer: LeaseOffer, messages: [IncomingMessage], outcomes: [StoreOutcome]) {
        for lane in lanes {
            let isOffered = offer.lanes.contains(lane.index)
            let isPacked = isOffered && offer.packed.contains(names[lane.index])
            let lease = Lease(token: offer.token, deadline: offer.deadline, block: isPacked ? offer.block : nil)
            var deliveries: [Delivery] = []
            if isOffered { deliveries.reserveCapacity(messages.count) }
            // Read in place: a copy of a message retains its bytes.
            let batch = messages.span
            for index in batch.indices where outcomes[index] == .stored {
                guard lane.takes(batch[index].category, of: batch[index].bytes.unsafeBytes) else { continue }
                guard isOffered else {
                    if lane.settings.rate == nil {
                        // Where a filter let something pass, the database's notification says so.
                        if lane.settings.registration.filter == nil { lane.claims.set() }
                    } else {
                        // Claimed once its rate allows; all of its messages come from the table.
                        lane.withMachine(wake: 0) { $0.hasArrived = true }
                    }
                    break
                }
                let key = batch[index].messageKey
                // A few waiting messages must not keep the memory shared with those that don't wait.
                let copy = lane.takesAll ? batch[index] : batch[index].detached()
                deliveries.append(Delivery(content: .received(ReceivedMessage(copy)), messageKey: key, lease: lease))
            }
            guard isOffered else { continue }
            handOver(deliveries, offer, lane)
        }
    }

    func withdrawn(_ offer: LeaseOffer) {
        for lane in offer.lanes.map({ lanes[$0] }) {
            handOver([], offer, lane)
            // It may have committed all the same. The next attempt to commit takes over its blocks as rows.
            if offer.packed.contains(lane.settings.name) {
                lane.settler.abandon(block: offer.block, token: offer.token)
            }
        }
    }

    func registrationLost(of offer: LeaseOffer) {
        // Another writer may have noticed before.
        if offer.token == processToken { shared.registrationLost.set() }
    }
}
