import Telemetry
import Vocabulary

/// Times as they are written out.
enum TimeText {
    /// RFC 3339 in UTC with microseconds.
    static func rfc3339(_ microseconds: Int64) -> String { Timestamp(microseconds: microseconds).rfc3339 }
}
