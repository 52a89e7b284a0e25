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

    package static let day: Int64 = 86_400_000_000

    package var microsecondsOfDay: Int64 {
        let rest = microseconds % Timestamp.day
        return rest < 0 ? rest + Timestamp.day : rest
    }

    /// Days since 1970-01-01 in UTC; negative before.
    package var daysSince1970: Int64 {
        microseconds / Timestamp.day - (microseconds % Timestamp.day < 0 ? 1 : 0)
    }
}

extension Timestamp {
    private var bytes: [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(rfc3339: self)
        return bytes
    }

    /// RFC 3339 in UTC with six decimals: `2026-01-31T23:59:59.123456Z`.
    package var rfc3339: String { String(decoding: bytes, as: UTF8.self) }

    /// UTC to the second, for people (programs get ``rfc3339``): `2026-01-31 23:59:59Z`.
    package var shown: String { date + " " + timeOfDay + "Z" }

    /// The UTC date: `2026-01-31`.
    package var date: String { String(decoding: bytes.prefix { $0 != UInt8(ascii: "T") }, as: UTF8.self) }

    /// The UTC time of day: `23:59:59`.
    package var timeOfDay: String { String(decoding: bytes.suffix(16).prefix(8), as: UTF8.self) }
}

extension [UInt8] {
    package mutating func append(rfc3339 time: Timestamp) {
        let date = CivilDate(daysSince1970: time.daysSince1970)
        let isOrdinary = (0...9999).contains(date.year)
        if !isOrdinary { append(longYear: date.year) }
        let year = isOrdinary ? UInt32(truncatingIfNeeded: date.year) : 0
        let ofDay = time.microsecondsOfDay
        let seconds = UInt32(truncatingIfNeeded: ofDay / 1_000_000)
        let fraction = UInt32(truncatingIfNeeded: ofDay % 1_000_000)
        // Every export and every log line has one of these: written at once, two digits at a time.
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 27) { text in
            func put(_ place: Int, _ number: UInt32, _ mark: Unicode.Scalar? = nil) {
                text.initializeElement(at: place, to: UInt8(truncatingIfNeeded: 0x30 + number / 10))
                text.initializeElement(at: place + 1, to: UInt8(truncatingIfNeeded: 0x30 + number % 10))
                if let mark { text.initializeElement(at: place + 2, to: UInt8(ascii: mark)) }
            }
            put(0, year / 100)
            put(2, year % 100, "-")
            put(5, UInt32(truncatingIfNeeded: date.month), "-")
            put(8, UInt32(truncatingIfNeeded: date.day), "T")
            put(11, seconds / 3600, ":")
            put(14, seconds / 60 % 60, ":")
            put(17, seconds % 60, ".")
            put(20, fraction / 10_000)
            put(22, fraction / 100 % 100)
            put(24, fraction % 100, "Z")
            append(contentsOf: UnsafeBufferPointer(rebasing: text[(isOrdinary ? 0 : 4)...]))
        }
    }

    /// Appends a year that has more than four digits, or a sign.
    private mutating func append(longYear year: Int) {
        if year < 0 { append(UInt8(ascii: "-")) }
        let digits = String(year.magnitude).utf8
        append(contentsOf: repeatElement(UInt8(ascii: "0"), count: Swift.max(0, 4 - digits.count)))
        append(contentsOf: digits)
    }
}
