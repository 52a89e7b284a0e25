import Telemetry
import Vocabulary

/// Times as the commands show them.
enum ShownTime {
    /// To the second, in UTC, for tables: `2026-01-31 23:59:59Z`.
    static func short(_ microseconds: Int64) -> String {
        full(microseconds).prefix(19).replacing("T", with: " ") + "Z"
    }

    /// RFC 3339 in UTC with microseconds, for programs.
    static func full(_ microseconds: Int64) -> String { Timestamp(microseconds: microseconds).rfc3339 }
}
