import Synchronization
import Vocabulary

/// The last time given anew to the messages of each read of a socket: what the same read has in later batches comes
/// after it.
///
/// Messages of one read have one moment of parsing. Without this their new times would begin at that moment in each
/// batch: equal times, and a device's messages out of order.
package final class RestampedReads: Sendable {
    /// More reads than wait at any time: those of long ago are forgotten.
    private static let capacity = 8_192

    private let last = Mutex<[UInt64: Int64]>([:])

    package init() {}

    /// The time of the next message of the read that was parsed at that moment, whose own time is `own`: not before
    /// `least`.
    func next(parsedAt: UInt64, own: Int64, least: Int64) -> Int64 {
        last.withLock { last in
            // A time further away was given before another step of the clock.
            let given = last[parsedAt].flatMap { $0 >= own && $0 - own < DatabaseClock.step ? $0 : nil }
            let time = max(own, least, given.map { $0 + 1 } ?? .min)
            if last.count >= Self.capacity { last.removeAll(keepingCapacity: true) }
            last[parsedAt] = time
            return time
        }
    }
}
