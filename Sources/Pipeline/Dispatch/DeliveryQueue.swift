import UpstreamKit

/// The deliveries that wait for a slot, oldest first.
struct DeliveryQueue: Sendable {
    private var entries: [(delivery: Delivery, isFresh: Bool)?] = []
    /// The first entry still in use: saves moving the rest down at each take.
    private var head = 0
    /// How many were handed over by ingest.
    private(set) var fresh = 0
    /// How many were claimed.
    private(set) var claimed = 0
    /// How many may bring the worker down.
    private(set) var suspects = 0

    var isEmpty: Bool { head == entries.count }

    mutating func append(_ delivery: Delivery, isFresh: Bool) {
        entries.append((delivery, isFresh))
        count(delivery, isFresh, by: 1)
    }

    mutating func popFirst() -> Delivery? {
        guard head < entries.count, let entry = entries[head] else { return nil }
        entries[head] = nil
        head += 1
        if head == entries.count {
            entries.removeAll(keepingCapacity: true)
            head = 0
        } else if head >= 1_024 {
            entries.removeFirst(head)
            head = 0
        }
        count(entry.delivery, entry.isFresh, by: -1)
        return entry.delivery
    }

    /// Drops entries from the front for as long as the condition holds.
    mutating func dropFirst(while condition: (Delivery) -> Bool) {
        while head < entries.count, let entry = entries[head], condition(entry.delivery) { _ = popFirst() }
    }

    mutating func removeAll() -> [Delivery] {
        let all = entries[head...].compactMap { $0?.delivery }
        self = DeliveryQueue()
        return all
    }

    /// The claims of the entries that fulfil the condition.
    func references(where condition: (Delivery) -> Bool) -> [LeaseReference] {
        entries[head...].compactMap { entry in
            guard let entry, condition(entry.delivery) else { return nil }
            return LeaseReference(messageKey: entry.delivery.messageKey, token: entry.delivery.lease.token)
        }
    }

    /// Moves the ends of leases, and drops the entries whose lease was lost.
    mutating func extend(_ held: Set<LeaseReference>, lost: Set<LeaseReference>, until end: ContinuousClock.Instant) {
        let all = entries[head...].compactMap(\.self)
        self = DeliveryQueue()
        for var entry in all {
            let reference = LeaseReference(messageKey: entry.delivery.messageKey, token: entry.delivery.lease.token)
            if lost.contains(reference) { continue }
            if held.contains(reference) { entry.delivery.lease.deadline = end }
            append(entry.delivery, isFresh: entry.isFresh)
        }
    }

    private mutating func count(_ delivery: Delivery, _ isFresh: Bool, by step: Int) {
        if isFresh { fresh += step } else { claimed += step }
        if delivery.isSuspect { suspects += step }
    }
}
