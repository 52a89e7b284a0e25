/// Reads the times that people write.
///
/// Before now: `90s`, `15m`, `2h`, `30d`, `4w`. Days: `today`, `yesterday` and `2026-01-31`, each at its midnight. Moments:
/// RFC 3339, where the seconds may be left out, and a space may stand for the `T`. Where no offset stands, UTC is
/// meant: it is what the partitions go by and what every column shows.
package enum TimeExpression {
    /// Reads one.
    ///
    /// - Parameters:
    ///   - text: What somebody wrote.
    ///   - now: The present, in microseconds since 1970-01-01 UTC.
    /// - Returns: Microseconds since 1970-01-01 UTC.
    /// - Throws: ``FilterError`` with the place of the mistake.
    package static func parse(_ text: String, now: Int64) throws(FilterError) -> Int64 {
        let midnight = now - floorRemainder(now, day)
        switch text {
        case "now": return now
        case "today": return midnight
        case "yesterday": return midnight - day
        default: break
        }
        if let length = length(text) {
            let (time, overflow) = now.subtractingReportingOverflow(length)
            guard !overflow, time >= earliest else { throw FilterError("this is too long ago", in: text, at: 0) }
            return time
        }
        return try moment(text)
    }

    /// Reads a date or a moment, which mean the same at any time.
    ///
    /// - Throws: ``FilterError`` with the place of the mistake.
    package static func moment(_ text: String) throws(FilterError) -> Int64 {
        var reader = MomentReader(text)
        return try reader.read()
    }

    static let day: Int64 = 86_400_000_000
    /// The year 1, which PostgreSQL can hold as well.
    static let earliest: Int64 = -62_135_596_800_000_000

    private static func length(_ text: String) -> Int64? {
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        let units: [String: Int64] = [
            "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": day, "w": 7 * day,
        ]
        guard !digits.isEmpty, let unit = units[String(text.dropFirst(digits.count))] else { return nil }
        // What does not fit is too long ago.
        guard let count = Int64(digits) else { return .max }
        let (product, overflow) = count.multipliedReportingOverflow(by: unit)
        return overflow ? .max : product
    }

    static func floorRemainder(_ value: Int64, _ divisor: Int64) -> Int64 {
        let remainder = value % divisor
        return remainder < 0 ? remainder + divisor : remainder
    }
}

/// Reads `2026-01-31T23:59:59.123456+01:00` and its shorter forms.
private struct MomentReader {
    private let text: String
    private let bytes: [UInt8]
    private var position = 0

    init(_ text: String) {
        self.text = text
        bytes = Array(text.utf8)
    }

    mutating func read() throws(FilterError) -> Int64 {
        let forms = "write 2h, 30d, today, yesterday, 2026-01-31 or 2026-01-31T12:00:00Z"
        let year = try number(4, 1...9999, "this is no time: \(forms)")
        try expect("-", "the date goes on with '-' and the month")
        let month = try number(2, 1...12, "a month is 01 to 12")
        try expect("-", "the date goes on with '-' and the day")
        let date = try number(2, 1...MomentReader.length(ofMonth: month, year), "there is no such day in that month")
        var time = MomentReader.days(year, month, date) * TimeExpression.day
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
            // A leap second counts as the first of the next minute, as PostgreSQL does it.
            time += try number(2, 0...60, "a second is 00 to 59") * 1_000_000
            time += try fraction()
        }
        return time - (try offset())
    }

    /// Microseconds; digits beyond them are cut off.
    private mutating func fraction() throws(FilterError) -> Int64 {
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

    private mutating func offset() throws(FilterError) -> Int64 {
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
    ) throws(FilterError) -> Int64 {
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

    private mutating func expect(_ character: Unicode.Scalar, _ message: String) throws(FilterError) {
        guard peek == UInt8(ascii: character) else { throw error(message) }
        position += 1
    }

    private var peek: UInt8? { position < bytes.count ? bytes[position] : nil }

    private var digit: Int64? {
        guard let byte = peek, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) else { return nil }
        return Int64(byte - UInt8(ascii: "0"))
    }

    /// The place is counted in bytes so far, of which every one is ASCII.
    private func error(_ message: String) -> FilterError { FilterError(message, in: text, at: position) }

    private static func length(ofMonth month: Int64, _ year: Int64) -> Int64 {
        if month == 2 { return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28 }
        return [4, 6, 9, 11].contains(month) ? 30 : 31
    }

    /// Days since 1970-01-01, in years that begin on 1 March, so that the leap day is a year's last.
    private static func days(_ year: Int64, _ month: Int64, _ date: Int64) -> Int64 {
        let shifted = month <= 2 ? year - 1 : year
        let era = shifted / 400
        let yearOfEra = shifted - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + date - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }
}
