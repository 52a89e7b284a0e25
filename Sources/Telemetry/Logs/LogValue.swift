package import Logging
package import Vocabulary

package enum LogValue: Sendable, Equatable, CustomStringConvertible {
    /// Text; cut when it is long.
    case string(String)
    case int(Int)
    case double(Double)
    case bool(Bool)
    case uuid(Digest128)

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
