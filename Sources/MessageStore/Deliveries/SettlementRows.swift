import Pipeline
import Postgres
import Vocabulary

/// Deliveries of one handler that are ours; each statement takes the members that it names.
struct SettlementRows: Sendable {
    var handler: String
    var keys: [Digest128] = []
    /// The fencing tokens.
    var tokens: [Int64] = []
    /// When each may be tried again, from now.
    var delays: [Duration] = []
    /// 1 where the attempt counts, else 0.
    var counted: [Int64] = []
    var errors: [String] = []
    /// The groups of the failures.
    var groups: [String] = []
    /// How each attempt ended.
    var outcomes: [String] = []
    /// The leases' remaining time, from now.
    var lease = Duration.zero
    var history = AttemptRows()

    /// Of blocks: the one fencing token, their numbers, and how many deliveries each holds.
    var token: Int64 = 0
    var numbers: [Int64] = []
    var counts: [Int64] = []

    /// Adds what is done, cut by second where there is history to write.
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

/// Attempts as the history keeps them: arrays, a row of it for those of messages that arrived within a second.
struct AttemptRows: Sendable {
    /// Who made them.
    var worker = ""
    /// How long ago each began.
    var ages: [Seconds] = []
    /// How long each took.
    var durations: [Seconds] = []
    /// Where each row of history begins in the arrays, from 1; none where the times of arrival are not known.
    private(set) var lows: [Int64] = []
    /// Where it ends.
    private(set) var highs: [Int64] = []
    /// When the first of its messages was received, and the last.
    private(set) var firsts: [Timestamp] = []
    private(set) var lasts: [Timestamp] = []
    /// The block that it is of.
    private(set) var blocks: [Int64] = []

    /// What one row may span, in microseconds: less than a second.
    private static let span: Int64 = 999_999

    /// Adds one that has a row found for it by the statement; nil where nothing was tried.
    mutating func add(_ attempt: AttemptRecord?, at now: ContinuousClock.Instant) {
        ages.append(Seconds(attempt.map { $0.started.duration(to: now) } ?? .zero))
        durations.append(attempt.map { Seconds($0.took) } ?? .none)
    }

    /// Adds attempts that are a row, or as many as they need: almost always one.
    ///
    /// - Returns: The order in which they stand in the arrays.
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
