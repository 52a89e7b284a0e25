package import Logging
package import Vocabulary

/// A typed value in a log line.
package enum LogValue: Sendable, Equatable, CustomStringConvertible {
    /// Text; cut when it is long.
    case string(String)
    /// A whole number, written as one.
    case int(Int)
    /// A number, written as one.
    case double(Double)
    /// A truth value, written as one.
    case bool(Bool)
    /// A key, written as a UUID.
    case uuid(Digest128)

    /// A duration in seconds.
    package static func seconds(_ duration: Duration) -> LogValue { .double(duration.inSeconds) }

    package var description: String {
        switch self {
        case .string(let text): text
        case .int(let number): String(number)
        case .double(let number): String(number)
        case .bool(let flag): String(flag)
        case .uuid(let digest): digest.description
        }
    }

    /// The value in swift-log's own terms.
    package var metadata: Logger.MetadataValue {
        switch self {
        case .string(let text): .string(text)
        default: .stringConvertible(self)
        }
    }
}

extension LogValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral {
    package init(stringLiteral value: String) { self = .string(value) }
    package init(integerLiteral value: Int) { self = .int(value) }
    package init(floatLiteral value: Double) { self = .double(value) }
}
