/// The deliveries that wait for a slot: untried ones, and those that have failed or must go alone, each oldest first.
///
/// Neither kind starves the other. While both wait they take turns, and failed ones get at most half of the slots: if
/// they run into their timeout, the others still have the rest.
struct DeliveryQueue: Sendable {
    private var untried = DeliveryFIFO()
    private var tried = DeliveryFIFO()
    private var isTriedNext = false
    /// Deliveries handed over by ingest.
    private(set) var fresh = 0
    private(set) var freshBytes = 0
    private(set) var claimed = 0
    private(set) var claimedBytes = 0
    /// Deliveries that may crash the worker.
    private(set) var suspects = 0

    var isEmpty: Bool { untried.isEmpty && tried.isEmpty }

    var hasTried: Bool { !tried.isEmpty }

    var hasUntried: Bool { !untried.isEmpty }

    var count: Int { fresh + claimed }

    mutating func append(_ delivery: Delivery, isFresh: Bool) {
        if delivery.isSociable {
            untried.append(delivery, isFresh)
        } else {
            tried.append(delivery, isFresh)
        }
        count(delivery, isFresh, by: 1)
    }

    /// Takes the next one; `allowsTried`: it may be a failed one although untried ones wait.
    mutating func popFirst(allowsTried: Bool) -> Delivery? {
        let isTried = untried.isEmpty || (!tried.isEmpty && allowsTried && isTriedNext)
        if !untried.isEmpty, !tried.isEmpty { isTriedNext = !isTried }
        guard let entry = isTried ? tried.popFirst() : untried.popFirst() else { return nil }
        count(entry.delivery, entry.isFresh, by: -1)
        return entry.delivery
    }

    mutating func dropFirst(endingBy limit: ContinuousClock.Instant) {
        while let end = untried.firstDeadline, end <= limit, let entry = untried.popFirst() {
            count(entry.delivery, entry.isFresh, by: -1)
        }
        while let end = tried.firstDeadline, end <= limit, let entry = tried.popFirst() {
            count(entry.delivery, entry.isFresh, by: -1)
        }
    }

    mutating func removeAll() -> [Delivery] {
        let all = untried.all + tried.all
        self = DeliveryQueue()
        return all.map(\.delivery)
    }

    func references(where condition: (Delivery) -> Bool) -> [LeaseReference] {
        (untried.all + tried.all).map(\.delivery).filter(condition).map(\.reference)
    }

    /// Extends leases, and drops the entries whose lease was lost.
    mutating func extend(_ held: Set<LeaseReference>, lost: Set<LeaseReference>, until end: ContinuousClock.Instant) {
        let all = untried.all + tried.all
        let isTriedNext = isTriedNext
        self = DeliveryQueue()
        self.isTriedNext = isTriedNext
        for var entry in all {
            let reference = entry.delivery.reference
            if lost.contains(reference) { continue }
            if held.contains(reference) { entry.delivery.lease.deadline = end }
            append(entry.delivery, isFresh: entry.isFresh)
        }
    }

    private mutating func count(_ delivery: Delivery, _ isFresh: Bool, by step: Int) {
        if isFresh {
            fresh += step
            freshBytes += step * delivery.content.size
        } else {
            claimed += step
            claimedBytes += step * delivery.content.size
        }
        if delivery.isSuspect { suspects += step }
    }
}

private struct DeliveryFIFO: Sendable {
    struct Entry: Sendable {
        var delivery: Delivery
        var isFresh: Bool
    }

    /// The first ones in reverse: the next is moved out at the end, and nothing else moves.
    private var leaving: [Entry] = []
    private var arriving: [Entry] = []

    var isEmpty: Bool { leaving.isEmpty && arriving.isEmpty }

    /// The end of the first entry's lease; read for each attempt, so without copying the entry.
    var firstDeadline: ContinuousClock.Instant? {
        if !leaving.isEmpty { return leaving[leaving.count - 1].delivery.lease.deadline }
        return arriving.isEmpty ? nil : arriving[0].delivery.lease.deadline
    }

    var all: [Entry] { leaving.reversed() + arriving }

    mutating func append(_ delivery: Delivery, _ isFresh: Bool) {
        arriving.append(Entry(delivery: delivery, isFresh: isFresh))
    }

    mutating func popFirst() -> Entry? {
        if leaving.isEmpty {
            swap(&leaving, &arriving)
            leaving.reverse()
        }
        return leaving.popLast()
    }
}
