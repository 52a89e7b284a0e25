import UpstreamKit

/// Decides where each poll of a follower begins, and which of the rows it finds are new.
///
/// `received_at` is when a message was parsed; its row is seen only once its transaction has committed, which may be much
/// later, and later than that of messages parsed after it. So a follower can't just go on from the last row it has
/// seen. Each poll looks back: a little every time, and by the whole overlap every few seconds. A row that commits
/// within the overlap is found by the next such poll. Keys that were shown are remembered for as long as a poll may look
/// at them again. At high rates that would be very many: beyond ``seenLimit`` the overlap shrinks instead of memory
/// growing, and ``isShortened`` says so.
package struct TailWindow: Sendable {
    /// How long after its `received_at` a message may commit and still be shown, in microseconds.
    package let overlap: Int64
    /// How far every poll looks back.
    package let shortOverlap: Int64
    /// How long after a poll over the whole overlap the next one is due.
    package let longInterval: Int64
    /// The greatest number of keys that are remembered.
    package let seenLimit: Int

    /// Whether so much arrives that the overlap had to shrink.
    package private(set) var isShortened = false
    /// The number of keys that are remembered.
    package var seenCount: Int { seen.count }

    private var seen: [MessageKey: Int64] = [:]
    private var lastPoll: Int64
    private var lastLongPoll: Int64
    private var lowest = Int64.min

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
    }

    /// Where the first look begins, whose rows are taken for known.
    package var start: Int64 { lastLongPoll - overlap }

    /// Begins a poll.
    ///
    /// - Parameter now: The database's time.
    /// - Returns: The `received_at` to read from.
    package mutating func poll(now: Int64) -> Int64 {
        var floor = lastPoll - shortOverlap
        if now - lastLongPoll >= longInterval {
            floor = lastLongPoll - overlap
            lastLongPoll = now
            let oldest = max(lowest, now - overlap - longInterval)
            seen = seen.filter { $0.value >= oldest }
            lowest = oldest
        }
        // A clock that was set back must not open a gap.
        lastPoll = min(now, max(lastPoll, now))
        return max(floor, lowest)
    }

    /// Whether a row has not been shown before; remembers it.
    package mutating func isNew(_ place: MessageCursor) -> Bool {
        guard place.receivedAt >= lowest, seen.updateValue(place.receivedAt, forKey: place.messageKey) == nil else {
            return false
        }
        if seen.count > seenLimit { shorten() }
        return true
    }

    private mutating func shorten() {
        let times = seen.values.sorted()
        lowest = times[times.count / 2]
        let oldest = lowest
        seen = seen.filter { $0.value >= oldest }
        isShortened = true
    }
}
