import Glibc

/// A moment of the wall clock, to the microsecond: PostgreSQL's `timestamptz`.
package struct Timestamp: Hashable, Comparable, Sendable {
    /// Microseconds since 1970-01-01 00:00 UTC; negative before.
    package var microseconds: Int64

    @inlinable
    package init(microseconds: Int64) { self.microseconds = microseconds }

    /// The system's wall clock, which may be set back or forward.
    package static var now: Timestamp {
        let time = SystemClock.time(CLOCK_REALTIME)
        return Timestamp(microseconds: Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1000)
    }

    package static let epoch = Timestamp(microseconds: 0)

    @inlinable
    package static func < (lhs: Timestamp, rhs: Timestamp) -> Bool { lhs.microseconds < rhs.microseconds }

    /// A later time; wraps around beyond 292,000 years.
    package static func + (lhs: Timestamp, rhs: Duration) -> Timestamp {
        Timestamp(microseconds: lhs.microseconds &+ rhs.microseconds)
    }

    /// An earlier time; wraps around likewise.
    package static func - (lhs: Timestamp, rhs: Duration) -> Timestamp {
        Timestamp(microseconds: lhs.microseconds &- rhs.microseconds)
    }

    package static func - (lhs: Timestamp, rhs: Timestamp) -> Duration {
        .microseconds(lhs.microseconds &- rhs.microseconds)
    }
}
