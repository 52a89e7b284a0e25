package import Glibc

/// A moment of the monotonic clock (`CLOCK_MONOTONIC`), in 8 bytes; only differences are meaningful.
package struct MonotonicTime: Hashable, Comparable, Sendable {
    /// Nanoseconds since a moment before the process's start.
    package var nanoseconds: UInt64

    @inlinable
    package init(nanoseconds: UInt64) { self.nanoseconds = nanoseconds }

    package static var now: MonotonicTime {
        let time = SystemClock.time(CLOCK_MONOTONIC)
        return MonotonicTime(nanoseconds: UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec))
    }

    package var milliseconds: Int64 { Int64(nanoseconds / 1_000_000) }

    package var microseconds: Int64 { Int64(nanoseconds / 1_000) }

    @inlinable
    package static func < (lhs: MonotonicTime, rhs: MonotonicTime) -> Bool { lhs.nanoseconds < rhs.nanoseconds }
}

/// The only reader of the system's clocks.
package enum SystemClock {
    /// Reads a clock; can't fail, since those used here exist on every Linux.
    package static func time(_ clock: clockid_t) -> timespec {
        var time = timespec()
        clock_gettime(clock, &time)
        return time
    }
}
