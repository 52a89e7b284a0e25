import Logging
import Vocabulary

/// Log lines in reusable memory.
package struct LogBuffer: Sendable {
    private var writer = JSONWriter(capacity: 0)

    /// The most memory kept for the next lines.
    private static let mostKept = 256 * 1024

    package init() {}

    package var bytes: [UInt8] { writer.bytes }

    package var count: Int { writer.bytes.count }

    package var isEmpty: Bool { writer.bytes.isEmpty }

    package mutating func removeAll() {
        if writer.bytes.capacity > Self.mostKept { writer = JSONWriter(capacity: 0) } else { writer.removeAll() }
    }

    package mutating func append(line: [UInt8]) { writer.line(line) }

    /// Appends one of our events as a JSON object and a newline, in the form of ``LogLine``.
    mutating func append(
        _ time: Timestamp,
        _ level: Logger.Level,
        _ event: EventName,
        _ message: StaticString,
        _ fields: LogFields
    ) {
        writer.beginLine(time, level)
        message.withUTF8Buffer { writer.string(utf8: UnsafeRawBufferPointer($0)) }
        writer.name("event")
        writer.plain(event.rawValue)
        for (field, value) in fields.values {
            writer.name(plain: field.rawValue)
            writer.append(value)
        }
        writer.endObject()
        writer.endLine()
    }
}
