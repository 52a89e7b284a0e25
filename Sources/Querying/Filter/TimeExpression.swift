package import Vocabulary

/// Parses the times that people write.
///
/// An age: `90s`, `15m`, `2h`, `30d`, `4w`. A day, which means its midnight: `today`, `yesterday`, `2026-01-31`. A moment:
/// RFC 3339, with optional seconds, and a space allowed for the `T`. Without an offset it is UTC, as partitions and output
/// are.
package enum TimeExpression {
    /// Parses an age counted back from `now`, a day or a moment.
    package static func parse(_ text: String, now: Timestamp) throws(FilterError) -> Timestamp {
        let midnight = now.microseconds - now.microsecondsOfDay
        switch text {
        case "now": return now
        case "today": return Timestamp(microseconds: midnight)
        case "yesterday": return Timestamp(microseconds: midnight - Timestamp.day)
        default: break
        }
        guard let age = DurationText(text), age.unit != nil else { return try moment(text) }
        // Overflow is too long ago as well.
        let (time, overflow) = now.microseconds.subtractingReportingOverflow(age.duration?.microseconds ?? .max)
        guard !overflow, time >= earliest else { throw FilterError("too long ago", in: text, at: 0) }
        return Timestamp(microseconds: time)
    }

    /// Parses a date or a moment, whose meaning doesn't depend on the current time.
    package static func moment(_ text: String) throws(FilterError) -> Timestamp {
        do {
            return try Timestamp(parsing: text)
        } catch {
            throw FilterError(error.message, in: text, at: error.position)
        }
    }

    /// The start of the year 1, which PostgreSQL's type holds too.
    private static let earliest: Int64 = -62_135_596_800_000_000
}
