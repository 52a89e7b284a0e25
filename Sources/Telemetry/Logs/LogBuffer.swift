import Logging
import Vocabulary

/// Log lines as bytes, in memory that is used again for the next ones.
package struct LogBuffer: Sendable {
    private var writer = JSONWriter(capacity: 0)

    /// Memory beyond this is not kept for the next lines.
    private static let mostKept = 256 * 1024

    /// No lines.
    package init() {}

    /// The lines so far, each with its newline.
    package var bytes: [UInt8] { writer.bytes }

    /// How many bytes they are.
    package var count: Int { writer.bytes.count }

    /// Whether there are none.
    package var isEmpty: Bool { writer.bytes.isEmpty }

    /// Forgets the lines.
    package mutating func removeAll() {
        if writer.bytes.capacity > Self.mostKept { writer = JSONWriter(capacity: 0) } else { writer.removeAll() }
    }

    /// Appends a line that is there already, with its newline.
    package mutating func append(line: [UInt8]) { writer.line(line) }

    /// Appends an event of ours as a JSON object and a newline; the same as ``LogLine`` makes of it.
    mutating func append(
        _ time: Timestamp,
        _ level: Logger.Level,
        _ event: EventName,
        _ message: StaticString,
        _ fields: LogFields
    ) {
        writer.beginObject()
        writer.name("time")
        writer.time(time)
        writer.name("level")
        writer.plain(level.rawValue)
        writer.name("message")
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
