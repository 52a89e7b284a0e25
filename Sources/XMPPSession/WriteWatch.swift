import XMPP

/// How long what we have written has waited while nothing of it moved, as a pure value.
///
/// The acks of a peer that reads nothing stay here until our kernel takes them, then until its machine acknowledges them.
/// `TCP_USER_TIMEOUT` would not do: while the peer's window is smaller than the next segment its clock runs on, though bytes
/// move. Writes end in order, and are kept as marks, at most one for each sixteenth of the limit: at most 18.
struct WriteWatch {
    private struct Mark {
        /// The first write of the mark, which stands for all writes up to the next mark.
        var number: UInt64
        var at: UInt64
    }

    /// How many times the limit a write may wait now.
    var patience: UInt64 = 1
    private let limit: UInt64
    private let grain: UInt64
    private var marks: [Mark] = []
    private var written: UInt64 = 0
    private var movedAt: UInt64 = 0
    private var acked: UInt64 = 0
    /// Since when the kernel has had bytes that are not acknowledged; nil if it has none.
    private var waitingSince: UInt64?

    /// A watch over no writes; each may wait for `limit` nanoseconds.
    init(limit: UInt64) {
        // At most a year, so that adding it to a clock never overflows.
        self.limit = min(max(limit, 1_000_000), 31_536_000_000_000_000)
        grain = self.limit / 16
    }

    /// Records a write; returns its number, from 1.
    mutating func wrote(now: UInt64) -> UInt64 {
        written += 1
        guard let last = marks.last, now < last.at &+ grain else {
            marks.append(Mark(number: written, at: now))
            return written
        }
        return written
    }

    /// Records that the write of this number, and with it all before, is done or has failed.
    mutating func ended(_ number: UInt64) {
        if number >= written { return marks.removeAll(keepingCapacity: true) }
        while marks.count > 1, marks[1].number <= number + 1 { marks.removeFirst() }
    }

    /// Looks at the transport's counters, if it has any: once bytes have moved, the time of what waits begins anew.
    mutating func look(_ bytes: SentBytes?, now: UInt64) {
        guard let bytes else { return }
        if bytes.acked != acked { (acked, movedAt) = (bytes.acked, now) }
        waitingSince = bytes.waiting > 0 ? waitingSince ?? now : nil
    }

    /// How often to look at the counters.
    var interval: UInt64 { limit / 8 }

    /// When the oldest byte has waited too long, up to a sixteenth of the limit later; nil if none waits.
    var due: UInt64? {
        let oldest = min(marks.first?.at ?? .max, waitingSince ?? .max)
        return oldest == .max ? nil : max(oldest, movedAt) &+ limit &* patience &+ grain
    }
}
