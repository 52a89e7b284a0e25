import Glibc

/// A moment of the monotonic clock (`CLOCK_MONOTONIC`): only the time between two of them means anything.
///
/// 8 bytes, where an instant of Swift's own clocks takes 16; the hot path keeps one for each message.
package struct MonotonicTime: Hashable, Comparable, Sendable {
    /// Nanoseconds since a moment that lies before the process's start.
    package var nanoseconds: UInt64

    /// The moment that many nanoseconds after the clock's zero.
    @inlinable
    package init(nanoseconds: UInt64) { self.nanoseconds = nanoseconds }

    /// The time that the clock shows.
    package static var now: MonotonicTime {
        let time = SystemClock.time(CLOCK_MONOTONIC)
        return MonotonicTime(nanoseconds: UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec))
    }

    /// Whole milliseconds since the clock's zero.
    package var milliseconds: Int64 { Int64(nanoseconds / 1_000_000) }

    /// Whole microseconds since the clock's zero.
    package var microseconds: Int64 { Int64(nanoseconds / 1_000) }

    /// Earlier before later.
    @inlinable
    package static func < (lhs: MonotonicTime, rhs: MonotonicTime) -> Bool { lhs.nanoseconds < rhs.nanoseconds }

    /// The time from `rhs` to `lhs`; negative where `rhs` is the later one.
    package static func - (lhs: MonotonicTime, rhs: MonotonicTime) -> Duration {
        .nanoseconds(Int64(bitPattern: lhs.nanoseconds &- rhs.nanoseconds))
    }

    /// The seconds from `earlier` to this moment; 0 where that is later.
    @inlinable
    package func seconds(since earlier: MonotonicTime) -> Double {
        nanoseconds > earlier.nanoseconds ? Double(nanoseconds - earlier.nanoseconds) * 1e-9 : 0
    }
}

/// The one place that asks the system for the time.
enum SystemClock {
    /// What a clock shows; all that is used here exist on every Linux, so the call can't fail.
    static func time(_ clock: clockid_t) -> timespec {
        var time = timespec()
        clock_gettime(clock, &time)
        return time
    }
}
