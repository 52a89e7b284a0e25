import Dispatcher
import Vocabulary

/// Leased deliveries of one handler; each statement takes the members that it names.
struct SettlementRows: Sendable {
    var handler: String
    var keys: [Digest128] = []
    /// The fencing tokens.
    var tokens: [Int64] = []
    /// The delay before each may be tried again.
    var delays: [Duration] = []
    /// 1 if the attempt counts, else 0.
    var counted: [Int64] = []
    var errors: [String] = []
    /// The failures' groups.
    var groups: [String] = []
    /// Each attempt's outcome.
    var outcomes: [String] = []
    /// The leases' new duration, from now.
    var lease = Duration.zero
    var history = AttemptRows()

    /// Of blocks: their fencing token, their numbers, and the number of deliveries in each.
    var token: Int64 = 0
    var numbers: [Int64] = []
    var counts: [Int64] = []

    /// Adds finished messages, cut by second if there are attempts to record.
    mutating func add(
        done: [Digest128],
        _ attempts: [AttemptRecord],
        ofBlock block: Int64 = 0,
        at now: ContinuousClock.Instant
    ) {
        guard attempts.count == done.count else {
            keys += done
            return
        }
        for index in history.add(attempts, ofBlock: block, at: now) { keys.append(done[index]) }
    }
}

/// Attempts in the form of the history: arrays, one row for messages that arrived within a second.
struct AttemptRows: Sendable {
    /// Who made them.
    var worker = ""
    /// How many seconds ago each began.
    var ages: [Float] = []
    /// How many seconds each took; NaN stands for null.
    var durations: [Float] = []
    /// The start, from 1, of each part that is one row of history; empty if unknown.
    private(set) var lows: [Int64] = []
    /// The end of each part.
    private(set) var highs: [Int64] = []
    /// When the first and last of its messages were received.
    private(set) var firsts: [Timestamp] = []
    private(set) var lasts: [Timestamp] = []
    /// The block of each part.
    private(set) var blocks: [Int64] = []

    /// The most microseconds that one row of history may span: less than a second.
    private static let span: Int64 = 999_999

    /// Adds an attempt whose row the statement finds; nil if nothing was tried.
    mutating func add(_ attempt: AttemptRecord?, at now: ContinuousClock.Instant) {
        func seconds(_ duration: Duration) -> Float { Float(max(0, duration.inSeconds)) }
        ages.append(attempt.map { seconds($0.started.duration(to: now)) } ?? 0)
        durations.append(attempt.map { seconds($0.took) } ?? .nan)
    }

    /// Adds finished attempts, in parts received within a second: almost always one; returns their order in the arrays.
    mutating func add(
        _ attempts: [AttemptRecord],
        ofBlock block: Int64,
        at now: ContinuousClock.Instant
    ) -> [Int] {
        var order = Array(attempts.indices)
        guard var first = attempts.first?.receivedAt else { return order }
        var last = first
        for attempt in attempts { (first, last) = (min(first, attempt.receivedAt), max(last, attempt.receivedAt)) }
        let isOne = last - first <= Self.span
        if !isOne { order.sort { attempts[$0].receivedAt < attempts[$1].receivedAt } }
        let isKnown = first > 0
        var low = Int64(ages.count + 1)
        for (place, index) in order.enumerated() {
            add(attempts[index], at: now)
            let isEnd = place + 1 == order.count || !isOne && attempts[order[place + 1]].receivedAt - first > Self.span
            guard isKnown, isEnd else { continue }
            lows.append(low)
            highs.append(Int64(ages.count))
            firsts.append(Timestamp(microseconds: first))
            lasts.append(Timestamp(microseconds: isOne ? last : attempts[index].receivedAt))
            blocks.append(block)
            low = Int64(ages.count + 1)
            if place + 1 < order.count { first = attempts[order[place + 1]].receivedAt }
        }
        return order
    }
}
