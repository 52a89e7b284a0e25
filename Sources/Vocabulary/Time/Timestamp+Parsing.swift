/// A syntax error in a time.
package struct TimestampTextError: Error, Hashable, Sendable {
    package var message: String
    /// The byte offset of the error; every byte before it is ASCII.
    package var position: Int
}

extension Timestamp {
    /// Parses RFC 3339, also with a space for the `T`, and without time, seconds or offset, which is then UTC.
    ///
    /// `2026-01-31`, `2026-01-31T12:00Z`, `2026-01-31 23:59:59.123456+01:00`.
    package init(parsing text: String) throws(TimestampTextError) {
        var reader = TimestampReader(text)
        self.init(microseconds: try reader.read())
    }
}

/// Parses `2026-01-31T23:59:59.123456+01:00` and its shorter forms.
private struct TimestampReader {
    private let bytes: [UInt8]
    private var position = 0

    init(_ text: String) {
        bytes = Array(text.utf8)
    }

    mutating func read() throws(TimestampTextError) -> Int64 {
        let forms = "write 2h, 30d, today, yesterday, 2026-01-31 or 2026-01-31T12:00:00Z"
        let year = try number(4, 1...9999, "this is no time: \(forms)")
        try expect("-", "the date goes on with '-' and the month")
        let month = try number(2, 1...12, "a month is 01 to 12")
        try expect("-", "the date goes on with '-' and the day")
        let date = try number(
            2,
            1...Int64(CivilDate.days(inMonth: Int(month), of: Int(year))),
            "there is no such day in that month"
        )
        var time = CivilDate(year: Int(year), month: Int(month), day: Int(date)).daysSince1970 * Timestamp.day
        guard let separator = peek else { return time }
        guard [UInt8(ascii: "T"), UInt8(ascii: "t"), UInt8(ascii: " ")].contains(separator) else {
            throw error("after the date comes 'T' and the time")
        }
        position += 1
        time += try number(2, 0...23, "an hour is 00 to 23") * 3_600_000_000
        try expect(":", "the time goes on with ':' and the minutes")
        time += try number(2, 0...59, "a minute is 00 to 59") * 60_000_000
        if peek == UInt8(ascii: ":") {
            position += 1
            // A leap second counts as the first of the next minute, as in PostgreSQL.
            time += try number(2, 0...60, "a second is 00 to 59") * 1_000_000
            time += try fraction()
        }
        return time - (try offset())
    }

    /// Microseconds; further digits are cut off.
    private mutating func fraction() throws(TimestampTextError) -> Int64 {
        guard peek == UInt8(ascii: ".") else { return 0 }
        position += 1
        var value: Int64 = 0
        var places = 0
        while let digit = digit {
            if places < 6 { value = value * 10 + digit }
            places += 1
            position += 1
        }
        guard places > 0 else { throw error("digits are missing after the point") }
        for _ in 0..<max(0, 6 - places) { value *= 10 }
        return value
    }

    private mutating func offset() throws(TimestampTextError) -> Int64 {
        guard let mark = peek else { return 0 }
        position += 1
        var sign: Int64 = 1
        switch mark {
        case UInt8(ascii: "Z"), UInt8(ascii: "z"):
            guard peek == nil else { throw error("nothing may follow the offset") }
            return 0
        case UInt8(ascii: "+"): break
        case UInt8(ascii: "-"): sign = -1
        default:
            position -= 1
            throw error("an offset is Z, +hh:mm or -hh:mm")
        }
        var offset = try number(2, 0...23, "an offset is Z, +hh:mm or -hh:mm") * 3_600_000_000
        if peek == UInt8(ascii: ":") { position += 1 }
        if peek != nil { offset += try number(2, 0...59, "an offset is Z, +hh:mm or -hh:mm") * 60_000_000 }
        guard peek == nil else { throw error("nothing may follow the offset") }
        return offset * sign
    }

    private mutating func number(
        _ count: Int,
        _ range: ClosedRange<Int64>,
        _ message: String
    ) throws(TimestampTextError) -> Int64 {
        let start = position
        var value: Int64 = 0
        for _ in 0..<count {
            guard let digit else {
                position = start
                throw error(message)
            }
            value = value * 10 + digit
            position += 1
        }
        guard range.contains(value) else {
            position = start
            throw error(message)
        }
        return value
    }

    private mutating func expect(_ character: Unicode.Scalar, _ message: String) throws(TimestampTextError) {
        guard peek == UInt8(ascii: character) else { throw error(message) }
        position += 1
    }

    private var peek: UInt8? { position < bytes.count ? bytes[position] : nil }

    private var digit: Int64? {
        guard let byte = peek, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) else { return nil }
        return Int64(byte - UInt8(ascii: "0"))
    }

    private func error(_ message: String) -> TimestampTextError {
        TimestampTextError(message: message, position: position)
    }
}
