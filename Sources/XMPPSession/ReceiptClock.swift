import Synchronization
import Vocabulary

/// Gives every received copy its `received_at`: wall-clock microseconds, each given once.
///
/// That no two copies share one lets the store tell its own earlier commit, whose reply was lost, from a duplicate: the
/// ledger row then holds this copy's own time. A clock set back by up to ``patience`` is waited for, microsecond by
/// microsecond; one that is further behind is followed at once, for it was ahead before (a wrong time from the network or from
/// a resumed machine), and messages dated into the future would stay so until it caught up. Times then repeat only if the
/// clock itself goes through the same time twice.
package final class ReceiptClock: Sendable {
    /// How far the clock may be behind the last time given before it is followed: a minute, in microseconds.
    package static let patience: Int64 = 60_000_000

    private let last = Atomic<Int64>(0)
    private let wall: @Sendable () -> Int64

    /// A clock over the system's wall clock, or over the given source of microseconds since 1970 UTC.
    package init(wall: @escaping @Sendable () -> Int64 = ReceiptClock.wallMicroseconds) {
        self.wall = wall
    }

    /// The wall clock's time now.
    package func now() -> Int64 { wall() }

    /// A time that was not given before: `now`, or as little later as it takes.
    ///
    /// Only where `now` is more than ``patience`` behind the last one, it is `now` all the same.
    package func unique(near now: Int64) -> Int64 {
        var seen = last.load(ordering: .relaxed)
        while true {
            let next = now < seen &- Self.patience ? now : max(now, seen &+ 1)
            let (done, original) = last.weakCompareExchange(
                expected: seen,
                desired: next,
                ordering: .relaxed
            )
            if done { return next }
            seen = original
        }
    }

    /// Microseconds since 1970-01-01 UTC.
    package static let wallMicroseconds: @Sendable () -> Int64 = { Timestamp.now.microseconds }

    /// Nanoseconds on the monotonic clock.
    package static func monotonicNanoseconds() -> UInt64 { MonotonicTime.now.nanoseconds }
}
