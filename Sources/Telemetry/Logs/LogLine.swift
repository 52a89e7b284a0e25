import Logging

/// One log event, ready to be written.
struct LogLine {
    /// Text beyond this many UTF-8 bytes is cut, so that no peer can make our log grow by what it sends.
    static let longestValue = 1024

    var time: UTCTime
    var level: Logger.Level
    var message: String
    var fields: Logger.Metadata

    /// The fields in the order of ``LogField``, then the others by name; those of every line are left out.
    var ordered: [(name: String, value: Logger.MetadataValue)] {
        let head: Set<String> = [LogField.time.rawValue, LogField.level.rawValue, LogField.message.rawValue]
        let known = LogField.allCases.map(\.rawValue)
        let others = fields.keys.filter { !known.contains($0) }.sorted()
        return (known + others).filter { !head.contains($0) }.compactMap { name in
            fields[name].map { (name, $0) }
        }
    }

    /// A JSON object and a newline.
    var json: [UInt8] {
        var writer = JSONLineWriter()
        writer.member(LogField.time.rawValue, .string(time.rfc3339))
        writer.member(LogField.level.rawValue, .string(level.rawValue))
        writer.member(LogField.message.rawValue, .string(message))
        for field in ordered { writer.member(field.name, field.value) }
        return writer.finish()
    }

    /// A line for people: time of day, level, message, then `name=value`.
    func text(colours: Bool) -> [UInt8] {
        var line = colours ? "\u{1B}[2m\(time.timeOfDay)\u{1B}[0m " : time.timeOfDay + " "
        let name = level.rawValue.uppercased()
        let padded = name + String(repeating: " ", count: max(0, 8 - name.count))
        line += colours ? "\u{1B}[\(colour)m\(padded)\u{1B}[0m " : padded + " "
        line += Self.printable(message)
        for field in ordered where field.name != LogField.event.rawValue {
            let value = Self.quoted(Self.printable(Self.cut("\(field.value)")))
            line += colours ? "  \u{1B}[2m\(Self.printable(field.name))=\u{1B}[0m\(value)" : "  \(field.name)=\(value)"
        }
        return Array((line + "\n").utf8)
    }

    /// The level's colour: red for what needs a person, yellow for what may, grey for details.
    private var colour: String {
        switch level {
        case .critical, .error: "31"
        case .warning: "33"
        case .notice, .info: "36"
        case .debug, .trace: "2"
        }
    }

    /// At most ``longestValue`` bytes, cut between characters, with a mark where something is missing.
    static func cut(_ text: String) -> String {
        guard text.utf8.count > longestValue else { return text }
        var end = text.utf8.index(text.startIndex, offsetBy: longestValue)
        while end.samePosition(in: text.unicodeScalars) == nil { end = text.utf8.index(before: end) }
        return text[..<end] + "…"
    }

    /// The text with control characters, and what turns text around, as visible escapes: no peer writes to our terminal.
    static func printable(_ text: String) -> String {
        guard text.unicodeScalars.contains(where: { isUnprintable($0) }) else { return text }
        var result = ""
        for scalar in text.unicodeScalars {
            if isUnprintable(scalar) {
                result += "\\u{\(String(scalar.value, radix: 16))}"
            } else {
                result.unicodeScalars.append(scalar)
            }
        }
        return result
    }

    private static func isUnprintable(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator: true
        default: false
        }
    }

    private static func quoted(_ text: String) -> String {
        guard text.isEmpty || text.contains(where: { $0 == " " || $0 == "\"" || $0 == "=" }) else { return text }
        return "\"" + text.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\\\"") + "\""
    }
}
