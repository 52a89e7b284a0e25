import Vocabulary

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
        do {
            return try Timestamp(parsing: text).microseconds
        } catch {
            throw FilterError(error.message, in: text, at: error.position)
        }
    }

    static let day: Int64 = 86_400_000_000
    /// The year 1, which PostgreSQL can hold as well.
    static let earliest: Int64 = -62_135_596_800_000_000

    /// The length of a time such as `2h`; the greatest number where it fits none.
    private static func length(_ text: String) -> Int64? {
        guard let length = DurationText(text), length.unit != nil else { return nil }
        return length.duration?.microseconds ?? .max
    }

    static func floorRemainder(_ value: Int64, _ divisor: Int64) -> Int64 {
        let remainder = value % divisor
        return remainder < 0 ? remainder + divisor : remainder
    }
}
