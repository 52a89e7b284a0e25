import ConfigurationKeys
import Vocabulary

/// A configuration file with every declared key: given ones as values, all others as comments with their defaults.
package struct ConfigurationTemplate: Sendable {
    /// Where the Debian package installs the JSON Schema.
    package static let schemaPath = "/usr/share/upstream-worker/config.schema.json"
    private static let width = 100

    /// The values by key path, with `N` for a list index.
    private let values: [String: String]
    private let schema: String

    /// A file with these values by path, `senders.N.host` for the only sender's.
    package init(_ values: [String: String], schema: String = Self.schemaPath) {
        (self.values, self.schema) = (values, schema)
    }

    /// The example that is shipped (`deploy/config.example.yaml`), with the usual server's host.
    package static let example = ConfigurationTemplate(
        [
            "database.url": "postgresql:///upstream?host=/run/postgresql", "senders.N.sender_id": "1234567890",
            "senders.N.host": "fcm-xmpp.googleapis.com", "senders.N.domain": "fcm.googleapis.com",
            "senders.N.secret_file": "server-key",
        ],
        schema: "config.schema.json"
    )

    package var text: String {
        var lines = [
            "# yaml-language-server: $schema=\(schema)",
            "#",
            "# The configuration of upstream-worker. A line that begins with # and a name is a key with its default: remove the #",
            "# to change it. Secrets never stand here, only the names of their files. Each key can be overridden by a variable:",
            "# log.level by UPSTREAM_LOG__LEVEL. To find mistakes: upstream-worker check --connect",
        ]
        for member in ConfigurationOutline.make(ConfigurationLoader.declarations).members {
            lines.append("")
            lines += self.lines(member)
        }
        return lines.joined(separator: "\n") + "\n"
    }

    /// The lines of a member, without indentation.
    private func lines(_ outline: ConfigurationOutline) -> [String] {
        guard isGiven(outline) else { return Self.comment(out: bare(outline)) }
        switch outline.content {
        case .value(let key): return comment(key) + ["\(outline.name): \(Self.yaml(values[key.path] ?? "", key))"]
        case .mapping: return ["\(outline.name):"] + outline.members.flatMap { Self.indent(lines($0)) }
        case .list:
            // The element must begin with a value.
            let given = outline.members.filter(isGiven)
            let rest = outline.members.filter { !isGiven($0) }
            var inside = given.flatMap(lines)
            if let first = inside.firstIndex(where: { !$0.hasPrefix("#") }) {
                let head = inside[..<first].map { "  " + $0 }
                let tail = inside[(first + 1)...].map { "    " + $0 }
                inside = head + ["  - " + inside[first]] + tail
            }
            return ["\(outline.name):"] + inside + rest.flatMap { Self.indent(lines($0), by: 4) }
        }
    }

    /// The lines of a member with its defaults, to be commented out.
    private func bare(_ outline: ConfigurationOutline) -> [String] {
        switch outline.content {
        case .value(let key):
            let value = key.defaultText.map { " " + Self.yaml($0, key) } ?? (key.isList ? " []" : "")
            return comment(key) + ["\(outline.name):\(value)"]
        case .mapping:
            guard !outline.members.isEmpty else { return ["\(outline.name): {}"] }
            return ["\(outline.name):"] + outline.members.flatMap { Self.indent(bare($0)) }
        case .list:
            var inside = outline.members.flatMap { member in
                outline.oneOf.first == member.name
                    ? ["# Exactly one of \(outline.oneOf.joined(separator: ", "))."] + bare(member) : bare(member)
            }
            if let first = inside.firstIndex(where: { !$0.hasPrefix("#") }) {
                inside = Array(inside[..<first]) + ["- " + inside[first]] + Self.indent(Array(inside[(first + 1)...]))
            }
            return ["\(outline.name):"] + Self.indent(inside)
        }
    }

    private func isGiven(_ outline: ConfigurationOutline) -> Bool {
        if case .value(let key) = outline.content { return values[key.path] != nil }
        return outline.members.contains(where: isGiven)
    }

    private func comment(_ key: ConfigurationKey) -> [String] {
        var text = key.meaning
        if key.isRequired {
            text += " Required."
        } else if key.defaultText == nil, !key.defaultValue.isEmpty {
            text += " " + key.standard
        }
        if case .words(let words) = key.shape { text += " One of: \(words.joined(separator: ", "))." }
        var lines: [String] = []
        var line = "#"
        for word in text.split(separator: " ") {
            if line.count + 1 + word.count > Self.width, line != "#" {
                lines.append(line)
                line = "#"
            }
            line += " " + word
        }
        return lines + [line]
    }

    /// A value as YAML: numbers and words plain, text in JSON's quotes, which are valid YAML.
    private static func yaml(_ text: String, _ key: ConfigurationKey) -> String {
        switch key.shape {
        case .number, .ratio, .flag, .words, .size, .duration: return text
        case .text, .id:
            var json = JSONWriter()
            json.string(text)
            return String(decoding: json.finish(), as: UTF8.self)
        }
    }

    private static func indent(_ lines: [String], by columns: Int = 2) -> [String] {
        lines.map { String(repeating: " ", count: columns) + $0 }
    }

    private static func comment(out lines: [String]) -> [String] {
        lines.map { $0.hasPrefix("#") ? $0 : "#" + $0 }
    }
}
