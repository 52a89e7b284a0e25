/// The deliveries that wait for a slot: live ones, replayed ones, and those that have failed or must go alone, each
/// oldest first.
///
/// Live ones go before replayed ones, which get every ``replayTurn``th turn while live ones wait: a replay ends even if
/// the handler is always busy. Neither of these kinds and the failed ones starve each other: while both wait they take
/// turns, and failed ones get at most half of the slots, so that the others have the rest if they run into their timeout.
struct DeliveryQueue: Sendable {
    /// Of so many turns while live deliveries wait, one is a replayed delivery's.
    static let replayTurn = 8
    /// The most turns that replayed deliveries have at once after they had to wait.
    private static let mostTurns = 16

    private var live = DeliveryFIFO()
    private var replayed = DeliveryFIFO()
    private var tried = DeliveryFIFO()
    private var isTriedNext = false
    /// The live deliveries taken while replayed ones waited, less those that were answered by a replayed one's turn.
    private var taken = 0
    /// Deliveries handed over by ingest.
    private(set) var fresh = 0
    private(set) var freshBytes = 0
    private(set) var claimed = 0
    private(set) var claimedBytes = 0
    /// Of these, the ones that give way to live ones.
    private(set) var claimedReplayed = 0
    private(set) var claimedReplayedBytes = 0
    /// Deliveries that may crash the worker.
    private(set) var suspects = 0

    var isEmpty: Bool { !hasUntried && tried.isEmpty }

    var hasTried: Bool { !tried.isEmpty }

    var hasUntried: Bool { !live.isEmpty || !replayed.isEmpty }

    var count: Int { fresh + claimed }

    /// How many untried deliveries of a kind wait.
    func count(replayed: Bool) -> Int { replayed ? self.replayed.count : live.count }

    mutating func append(_ delivery: Delivery, isFresh: Bool) {
        if !delivery.isSociable {
            tried.append(delivery, isFresh)
        } else if delivery.givesWay {
            replayed.append(delivery, isFresh)
        } else {
            live.append(delivery, isFresh)
        }
        count(delivery, isFresh, by: 1)
    }

    /// Takes the next one; `allowsTried`: it may be a failed one although untried ones wait.
    mutating func popFirst(allowsTried: Bool, allowsReplayed: Bool = true) -> Delivery? {
        let isReplayed = allowsReplayed && isReplayedNext
        let hasNext = isReplayed || !live.isEmpty
        // A failed one of a replay needs one of the replay's slots as well.
        let hasTried = !tried.isEmpty && (allowsReplayed || !tried.givesWay)
        let isTried = hasTried && (!hasUntried || (allowsTried && (isTriedNext || !hasNext)))
        if hasNext, hasTried { isTriedNext = !isTried }
        if isTried { return take(tried.popFirst()) }
        return hasNext ? popUntried(isReplayed) : nil
    }

    /// Takes the next untried one for a call that has begun; nil if the next is of the other kind.
    mutating func popNext(replayed isReplayed: Bool) -> Delivery? {
        guard isReplayed ? isReplayedNext : !live.isEmpty else { return nil }
        return popUntried(isReplayed)
    }

    private var isReplayedNext: Bool { !replayed.isEmpty && (live.isEmpty || taken >= Self.replayTurn - 1) }

    private mutating func popUntried(_ isReplayed: Bool) -> Delivery? {
        if replayed.isEmpty || (isReplayed && live.isEmpty) {
            taken = 0
        } else {
            let turn = Self.replayTurn - 1
            taken = isReplayed ? taken - turn : min(taken + 1, turn * Self.mostTurns)
        }
        return take(isReplayed ? replayed.popFirst() : live.popFirst())
    }

    private mutating func take(_ entry: DeliveryFIFO.Entry?) -> Delivery? {
        guard let entry else { return nil }
        count(entry.delivery, entry.isFresh, by: -1)
        return entry.delivery
    }

    mutating func dropFirst(endingBy limit: ContinuousClock.Instant) {
        while let entry = live.popFirst(endingBy: limit) ?? replayed.popFirst(endingBy: limit)
            ?? tried.popFirst(endingBy: limit)
        {
            count(entry.delivery, entry.isFresh, by: -1)
        }
    }

    mutating func removeAll() -> [Delivery] {
        defer { self = DeliveryQueue() }
        return all.map(\.delivery)
    }

    func references(where condition: (Delivery) -> Bool) -> [LeaseReference] {
        all.map(\.delivery).filter(condition).map(\.reference)
    }

    /// Extends leases, and drops the entries whose lease was lost.
    mutating func extend(_ held: Set<LeaseReference>, lost: Set<LeaseReference>, until end: ContinuousClock.Instant) {
        let turns = (isTriedNext, taken)
        let all = all
        self = DeliveryQueue()
        (isTriedNext, taken) = turns
        for var entry in all {
            let reference = entry.delivery.reference
            if lost.contains(reference) { continue }
            if held.contains(reference) { entry.delivery.lease.deadline = end }
            append(entry.delivery, isFresh: entry.isFresh)
        }
    }

    private var all: [DeliveryFIFO.Entry] { live.all + replayed.all + tried.all }

    private mutating func count(_ delivery: Delivery, _ isFresh: Bool, by step: Int) {
        if isFresh {
            fresh += step
            freshBytes += step * delivery.content.size
        } else {
            claimed += step
            claimedBytes += step * delivery.content.size
            if delivery.givesWay {
                claimedReplayed += step
                claimedReplayedBytes += step * delivery.content.size
            }
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

    var count: Int { leaving.count + arriving.count }

    var all: [Entry] { leaving.reversed() + arriving }

    mutating func append(_ delivery: Delivery, _ isFresh: Bool) {
        arriving.append(Entry(delivery: delivery, isFresh: isFresh))
    }

    /// Whether live deliveries go before the first.
    var givesWay: Bool { (leaving.last ?? arriving.first)?.delivery.givesWay ?? false }

    mutating func popFirst() -> Entry? {
        if leaving.isEmpty {
            swap(&leaving, &arriving)
            leaving.reverse()
        }
        return leaving.popLast()
    }

    /// Takes the first if its lease ends by then; asked for each attempt, so without copying the entry.
    mutating func popFirst(endingBy limit: ContinuousClock.Instant) -> Entry? {
        guard !isEmpty else { return nil }
        let end =
            leaving.isEmpty ? arriving[0].delivery.lease.deadline : leaving[leaving.count - 1].delivery.lease.deadline
        return end <= limit ? popFirst() : nil
    }
}
