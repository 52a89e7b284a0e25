import UpstreamKit
package import Vocabulary

/// Decides where each poll of a follower begins, and which rows are new.
///
/// `received_at` is set when a message is parsed, but its row is visible only after its transaction has committed:
/// maybe much later, and after messages that were parsed later. So each poll looks back from the last successful one: a
/// little every time, and by the whole overlap every few seconds, which finds each row that commits within the overlap.
/// Keys already shown are remembered for as long as a poll may find them again. Beyond ``seenLimit`` keys the overlap
/// shrinks instead of memory growing, and ``unproven`` says for which span.
package struct TailWindow: Sendable {
    /// How long after its `received_at` a message may commit and still be shown.
    package let overlap: Duration
    /// How far every poll looks back.
    package let shortOverlap: Duration
    /// The interval between polls over the whole overlap.
    package let longInterval: Duration
    package let seenLimit: Int

    /// The span that a poll should have covered but could not, because too many messages arrived.
    ///
    /// Late commits among those received in it may not have been shown.
    package private(set) var unproven: Range<Timestamp>?
    package var seenCount: Int { seen.count }

    /// Whether the overlap had to shrink because too many messages arrived.
    package private(set) var isShortened = false
    private var seen: [MessageKey: Timestamp] = [:]
    package private(set) var lastSuccess: Timestamp
    /// The last successful poll that read the whole overlap.
    package private(set) var lastLongSuccess: Timestamp
    private var lowest = Timestamp(microseconds: .min)
    /// The current poll's time, and whether it reads the whole overlap.
    private var current: (now: Timestamp, isLong: Bool)

    /// Starts a follower at `now`, by the database's clock.
    package init(
        now: Timestamp,
        overlap: Duration,
        longInterval: Duration = .seconds(5),
        seenLimit: Int = 200_000
    ) {
        self.overlap = overlap
        self.seenLimit = seenLimit
        shortOverlap = min(overlap, .seconds(2))
        self.longInterval = longInterval
        lastSuccess = now
        lastLongSuccess = now
        current = (now, false)
    }

    /// Where the first read begins; its rows count as already shown.
    package var start: Timestamp { lastLongSuccess - overlap }

    /// Begins a poll and returns the `received_at` to read from.
    ///
    /// Until ``succeeded()`` is called, the next poll begins where this one did.
    package mutating func poll(now: Timestamp) -> Timestamp {
        // A clock that was set back must not open a gap, even if a row is shown twice: some may have come since.
        if now < lastSuccess { lowest = min(lowest, now - overlap) }
        lastSuccess = min(now, lastSuccess)
        lastLongSuccess = min(now, lastLongSuccess)
        current = (now, now - lastLongSuccess >= longInterval)
        let floor = current.isLong ? lastLongSuccess - overlap : lastSuccess - shortOverlap
        unproven = floor < lowest && isShortened ? floor..<lowest : nil
        return max(floor, lowest)
    }

    package mutating func succeeded() {
        lastSuccess = current.now
        guard current.isLong else { return }
        lastLongSuccess = current.now
        // The next long poll begins here.
        let floor = current.now - overlap
        forget(before: floor)
        if lowest <= floor { isShortened = false }
    }

    /// Whether a row has not been shown before; remembers it.
    package mutating func isNew(_ place: MessageCursor) -> Bool {
        guard place.receivedAt >= lowest, seen.updateValue(place.receivedAt, forKey: place.messageKey) == nil else {
            return false
        }
        if seen.count > seenLimit { shorten() }
        return true
    }

    /// Forgets a new row that could not be shown, so that the next poll finds it again.
    package mutating func takeBack(_ place: MessageCursor) { seen[place.messageKey] = nil }

    /// Makes room, first by forgetting what no later poll reads, which after a long pause is most of it.
    ///
    /// If this poll fails, those rows are shown again rather than lost.
    private mutating func shorten() {
        let horizon = current.now - overlap
        if current.isLong { seen = seen.filter { $0.value >= horizon } }
        guard seen.count > seenLimit / 2 else { return }
        let times = seen.values.sorted()
        isShortened = true
        forget(before: times[times.count / 2])
    }

    private mutating func forget(before time: Timestamp) {
        lowest = max(lowest, time)
        let oldest = lowest
        seen = seen.filter { $0.value >= oldest }
    }
}
