extension Timestamp {
    /// RFC 3339 in UTC with six decimals: `2026-01-31T23:59:59.123456Z`.
    package var rfc3339: String { text { $0.append(rfc3339: self) } }

    /// UTC to the second, for people (programs get ``rfc3339``): `2026-01-31 23:59:59Z`.
    package var shown: String { date + " " + timeOfDay + "Z" }

    /// The UTC date: `2026-01-31`.
    package var date: String { text { $0.append(date: self) } }

    /// The UTC time of day: `23:59:59`.
    package var timeOfDay: String { text { $0.append(timeOfDay: self) } }

    package var microsecondsOfDay: Int64 {
        let rest = microseconds % Timestamp.day
        return rest < 0 ? rest + Timestamp.day : rest
    }

    /// Days since 1970-01-01 in UTC; negative before.
    package var daysSince1970: Int64 {
        microseconds / Timestamp.day - (microseconds % Timestamp.day < 0 ? 1 : 0)
    }

    package static let day: Int64 = 86_400_000_000

    private func text(_ write: (inout [UInt8]) -> Void) -> String {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(27)
        write(&bytes)
        return String(decoding: bytes, as: UTF8.self)
    }
}

extension [UInt8] {
    package mutating func append(rfc3339 time: Timestamp) {
        let date = CivilDate(daysSince1970: time.daysSince1970)
        guard (0...9999).contains(date.year) else { return appendLong(rfc3339: time) }
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
            put(0, UInt32(truncatingIfNeeded: date.year / 100))
            put(2, UInt32(truncatingIfNeeded: date.year % 100), "-")
            put(5, UInt32(truncatingIfNeeded: date.month), "-")
            put(8, UInt32(truncatingIfNeeded: date.day), "T")
            put(11, seconds / 3600, ":")
            put(14, seconds / 60 % 60, ":")
            put(17, seconds % 60, ".")
            put(20, fraction / 10_000)
            put(22, fraction / 100 % 100)
            put(24, fraction % 100, "Z")
            append(contentsOf: text)
        }
    }

    /// For years without exactly four digits.
    private mutating func appendLong(rfc3339 time: Timestamp) {
        append(date: time)
        append(UInt8(ascii: "T"))
        append(timeOfDay: time)
        append(UInt8(ascii: "."))
        append(digits: time.microsecondsOfDay % 1_000_000, 6)
        append(UInt8(ascii: "Z"))
    }

    package mutating func append(date time: Timestamp) {
        let date = CivilDate(daysSince1970: time.daysSince1970)
        if date.year < 0 { append(UInt8(ascii: "-")) }
        let year = Int64(date.year.magnitude)
        append(digits: year, Swift.max(4, String(year).utf8.count))
        append(UInt8(ascii: "-"))
        append(digits: Int64(date.month), 2)
        append(UInt8(ascii: "-"))
        append(digits: Int64(date.day), 2)
    }

    package mutating func append(timeOfDay time: Timestamp) {
        let seconds = time.microsecondsOfDay / 1_000_000
        append(digits: seconds / 3600, 2)
        append(UInt8(ascii: ":"))
        append(digits: seconds / 60 % 60, 2)
        append(UInt8(ascii: ":"))
        append(digits: seconds % 60, 2)
    }

    /// Appends the last `width` decimal digits of a number that is not negative.
    package mutating func append(digits number: Int64, _ width: Int) {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: width) { digits in
            var rest = number
            for index in stride(from: width - 1, through: 0, by: -1) {
                digits.initializeElement(at: index, to: UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10))
                rest /= 10
            }
            append(contentsOf: digits)
        }
    }
}
