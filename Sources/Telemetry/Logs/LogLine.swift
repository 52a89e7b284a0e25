import Logging
import Vocabulary

/// A log event to be written.
struct LogLine {
    /// Text over this many bytes of UTF-8 is cut, so that no peer can bloat our log.
    static let longestValue = 1024

    var time: Timestamp
    var level: Logger.Level
    var message: String
    var fields: Logger.Metadata

    private static let places = Dictionary(
        uniqueKeysWithValues: LogField.allCases.enumerated().map { ($0.element.rawValue, $0.offset) }
    )
    /// The fields up to this place come from the event itself.
    private static let lastOfHead = places[LogField.message.rawValue] ?? 0

    /// The fields in the order of ``LogField``, then unknown ones by name, without those of every line.
    private var ordered: [Logger.Metadata.Index] {
        var placed: [(place: Int, index: Logger.Metadata.Index)] = []
        placed.reserveCapacity(fields.count)
        for index in fields.indices {
            let place = Self.places[fields[index].key] ?? .max
            if place > Self.lastOfHead { placed.append((place, index)) }
        }
        placed.sort { left, right in
            left.place == right.place
                ? fields[left.index].key < fields[right.index].key : left.place < right.place
        }
        return placed.map(\.index)
    }

    func bytes(in format: LogFormat) -> [UInt8] {
        switch format {
        case .json: json
        case .text(let colours): text(colours: colours)
        }
    }

    private var json: [UInt8] {
        // The size of most lines.
        var writer = JSONWriter(capacity: 512)
        writer.beginLine(time, level)
        writer.string(LogLine.cut(message))
        for index in ordered { writer.member(fields[index].key, fields[index].value) }
        writer.endObject()
        writer.endLine()
        return writer.finish()
    }

    /// A line for people: time of day, level, message, then `name=value`.
    private func text(colours: Bool) -> [UInt8] {
        var line = colours ? "\u{1B}[2m\(time.timeOfDay)\u{1B}[0m " : time.timeOfDay + " "
        let name = level.rawValue.uppercased()
        let padded = name + String(repeating: " ", count: max(0, 8 - name.count))
        line += colours ? "\u{1B}[\(colour)m\(padded)\u{1B}[0m " : padded + " "
        line += TerminalText.escape(message)
        for index in ordered where fields[index].key != LogField.event.rawValue {
            let name = TerminalText.escape(fields[index].key)
            let value = Self.quoted(TerminalText.escape(Self.cut("\(fields[index].value)")))
            line += colours ? "  \u{1B}[2m\(name)=\u{1B}[0m\(value)" : "  \(name)=\(value)"
        }
        return Array((line + "\n").utf8)
    }

    /// The colour: red for what needs a person, yellow for what may, grey for details.
    private var colour: String {
        switch level {
        case .critical, .error: "31"
        case .warning: "33"
        case .notice, .info: "36"
        case .debug, .trace: "2"
        }
    }

    /// At most ``longestValue`` bytes, cut between characters and marked with an ellipsis.
    static func cut(_ text: String) -> String {
        text.utf8.count > longestValue ? text.cut(to: longestValue) + "…" : text
    }

    private static func quoted(_ text: String) -> String {
        guard text.isEmpty || text.contains(where: { $0 == " " || $0 == "\"" || $0 == "=" }) else { return text }
        return "\"" + text.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\\\"") + "\""
    }
}

extension JSONWriter {
    /// Writes a log line up to its message, which comes next.
    mutating func beginLine(_ time: Timestamp, _ level: Logger.Level) {
        beginObject()
        member("time", time)
        name("level")
        plain(level.rawValue)
        name("message")
    }

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
