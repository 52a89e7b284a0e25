import UpstreamKit

/// Decides where each poll of a follower begins, and which of the rows it finds are new.
///
/// `received_at` is when a message was parsed; its row is seen only once its transaction has committed, which may be much
/// later, and later than that of messages parsed after it. So a follower can't just go on from the last row it has
/// seen. Each poll looks back from the last one that succeeded, however long ago that was: a little every time, and by the
/// whole overlap every few seconds. A row that commits within the overlap is found by the next such poll. Keys that were
/// shown are remembered for as long as a poll may look at them again. At high rates that would be very many: beyond
/// ``seenLimit`` the overlap shrinks instead of memory growing, and ``unproven`` says for which span.
package struct TailWindow: Sendable {
    /// How long after its `received_at` a message may commit and still be shown, in microseconds.
    package let overlap: Int64
    /// How far every poll looks back.
    package let shortOverlap: Int64
    /// How long after a poll over the whole overlap the next one is due.
    package let longInterval: Int64
    /// The greatest number of keys that are remembered.
    package let seenLimit: Int

    /// So much arrived that a poll could not look back as far as it should have: what was received in this span and
    /// committed late may not have been shown.
    package private(set) var unproven: Range<Int64>?
    /// The number of keys that are remembered.
    package var seenCount: Int { seen.count }

    /// Whether so much arrives that the overlap had to shrink.
    package private(set) var isShortened = false
    private var seen: [MessageKey: Int64] = [:]
    private var lastPoll: Int64
    private var lastLongPoll: Int64
    private var lowest = Int64.min
    /// The poll that has begun: its time, and whether it reads the whole overlap.
    private var current: (now: Int64, isLong: Bool)

    /// A follower that starts now.
    ///
    /// - Parameters:
    ///   - now: The database's time, in microseconds since 1970-01-01 UTC.
    ///   - overlap: How late a commit may be, in microseconds.
    ///   - longInterval: How often the whole overlap is read, in microseconds.
    ///   - seenLimit: The greatest number of keys to remember.
    package init(now: Int64, overlap: Int64, longInterval: Int64 = 5_000_000, seenLimit: Int = 200_000) {
        self.overlap = overlap
        self.seenLimit = seenLimit
        shortOverlap = min(overlap, 2_000_000)
        self.longInterval = longInterval
        lastPoll = now
        lastLongPoll = now
        current = (now, false)
    }

    /// Where the first look begins, whose rows are taken for known.
    package var start: Int64 { lastLongPoll - overlap }

    /// The time of the last poll that succeeded.
    package var lastSuccess: Int64 { lastPoll }

    /// Begins a poll; it counts once ``succeeded()`` says so, and until then the next one begins where this one did.
    ///
    /// - Parameter now: The database's time.
    /// - Returns: The `received_at` to read from.
    package mutating func poll(now: Int64) -> Int64 {
        // A clock that was set back must not open a gap, if need be at the price of showing something again.
        if now < lastPoll { lowest = min(lowest, now) }
        lastPoll = min(now, lastPoll)
        lastLongPoll = min(now, lastLongPoll)
        current = (now, now - lastLongPoll >= longInterval)
        let floor = current.isLong ? lastLongPoll - overlap : lastPoll - shortOverlap
        unproven = floor < lowest && isShortened ? floor..<lowest : nil
        return max(floor, lowest)
    }

    /// The poll has read all there was.
    package mutating func succeeded() {
        lastPoll = current.now
        guard current.isLong else { return }
        lastLongPoll = current.now
        // The next long poll begins here.
        forget(before: current.now - overlap)
        if lowest <= current.now - overlap { isShortened = false }
    }

    /// Whether a row has not been shown before; remembers it.
    package mutating func isNew(_ place: MessageCursor) -> Bool {
        guard place.receivedAt >= lowest, seen.updateValue(place.receivedAt, forKey: place.messageKey) == nil else {
            return false
        }
        if seen.count > seenLimit { shorten() }
        return true
    }

    /// Makes room: first what no later poll looks at, which after a long pause is most of it.
    ///
    /// Should this poll fail, it is shown again, and not lost.
    private mutating func shorten() {
        let horizon = current.now - overlap
        if current.isLong { seen = seen.filter { $0.value >= horizon } }
        guard seen.count > seenLimit / 2 else { return }
        let times = seen.values.sorted()
        isShortened = true
        forget(before: times[times.count / 2])
    }

    private mutating func forget(before time: Int64) {
        lowest = max(lowest, time)
        let oldest = lowest
        seen = seen.filter { $0.value >= oldest }
    }
}
