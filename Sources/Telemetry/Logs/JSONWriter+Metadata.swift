import Logging
import Vocabulary

extension JSONWriter {
    /// Writes a member of a log line; a library's field name is escaped.
    mutating func member(_ name: String, _ value: Logger.MetadataValue) {
        self.name(escaping: name)
        append(value)
    }

    private mutating func append(_ value: Logger.MetadataValue) {
        switch value {
        case .string(let text): string(LogLine.cut(text))
        case .stringConvertible(let value): append(convertible: value)
        case .array(let values):
            beginArray()
            for value in values { append(value) }
            endArray()
        case .dictionary(let members):
            beginObject()
            for (name, value) in members.sorted(by: { $0.key < $1.key }) { member(name, value) }
            endObject()
        }
    }

    private mutating func append(convertible value: any CustomStringConvertible) {
        switch value {
        case let value as LogValue: append(value)
        case let value as Int: integer(value)
        case let value as Bool: bool(value)
        default: string(LogLine.cut(value.description))
        }
    }

    mutating func append(_ value: LogValue) {
        switch value {
        case .string(let text): string(LogLine.cut(text))
        case .int(let number): integer(number)
        case .double(let value): number(value)
        case .bool(let flag): bool(flag)
        case .uuid(let digest): uuid(digest)
        }
    }
}
