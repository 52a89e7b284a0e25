import Glibc

/// A moment of the wall clock, to the microsecond: PostgreSQL's `timestamptz`.
package struct Timestamp: Hashable, Comparable, Sendable {
    /// Microseconds since 1970-01-01 00:00 UTC; negative before.
    package var microseconds: Int64

    /// The moment that many microseconds after 1970-01-01 00:00 UTC.
    @inlinable
    package init(microseconds: Int64) { self.microseconds = microseconds }

    /// The time that the system's wall clock shows, which may be set back or forth.
    package static var now: Timestamp {
        let time = SystemClock.time(CLOCK_REALTIME)
        return Timestamp(microseconds: Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1000)
    }

    /// 1970-01-01 00:00 UTC.
    package static let epoch = Timestamp(microseconds: 0)

    /// Earlier before later.
    @inlinable
    package static func < (lhs: Timestamp, rhs: Timestamp) -> Bool { lhs.microseconds < rhs.microseconds }

    /// That much later; wraps around beyond 292,000 years.
    package static func + (lhs: Timestamp, rhs: Duration) -> Timestamp {
        Timestamp(microseconds: lhs.microseconds &+ rhs.microseconds)
    }

    /// That much earlier.
    package static func - (lhs: Timestamp, rhs: Duration) -> Timestamp {
        Timestamp(microseconds: lhs.microseconds &- rhs.microseconds)
    }

    /// The time from `rhs` to `lhs`.
    package static func - (lhs: Timestamp, rhs: Timestamp) -> Duration {
        .microseconds(lhs.microseconds &- rhs.microseconds)
    }
}
