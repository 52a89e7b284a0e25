import Vocabulary

/// Formats of times: short for people, full for programs.
enum ShownTime {
    /// To the second, in UTC: `2026-01-31 23:59:59Z`.
    static func short(_ microseconds: Int64) -> String { short(Timestamp(microseconds: microseconds)) }

    /// The short form of a moment.
    static func short(_ time: Timestamp) -> String { time.shown }

    /// The short form of a time written by ``full(_:)``.
    static func short(_ full: String) -> String { full.prefix(19).replacing("T", with: " ") + "Z" }

    /// RFC 3339 in UTC with microseconds.
    static func full(_ time: Timestamp) -> String { time.rfc3339 }

    /// RFC 3339 of microseconds since 1970-01-01 UTC.
    static func full(_ microseconds: Int64) -> String { Timestamp(microseconds: microseconds).rfc3339 }
}
