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

    package var text: String {
        var lines = [
            "# yaml-language-server: $schema=\(schema)",
            "#",
            "# The configuration of upstream-worker. A line that begins with # and a name is a key with its default: remove the #",
            "# to change it. Secrets never stand here, only the names of their files. Each key can be overridden by a variable:",
            "# log.level by UPSTREAM_LOG__LEVEL. To find mistakes: upstream-worker check --connect",
        ]
        for member in ConfigurationOutline.root.members {
            lines.append("")
            lines += self.lines(member)
        }
        return lines.joined(separator: "\n") + "\n"
    }

    /// The lines of a member, without indentation; one without given values is commented out, unless its parent is.
    private func lines(_ outline: ConfigurationOutline, inComment: Bool = false) -> [String] {
        let begins = !inComment && !isGiven(outline)
        let isOut = inComment || begins
        var lines: [String]
        switch outline.content {
        case .value(let key):
            let text = (values[key.path] ?? key.defaultText).map { " " + Self.yaml($0, key) }
            lines = comment(key) + ["\(outline.name):\(text ?? (key.isList ? " []" : ""))"]
        case .mapping:
            lines = ["\(outline.name):" + (outline.members.isEmpty ? " {}" : "")]
            lines += outline.members.flatMap { Self.indent(self.lines($0, inComment: isOut)) }
        case .list:
            // The element must begin with a value.
            let first = isOut ? outline.members : outline.members.filter(isGiven)
            let rest = isOut ? [] : outline.members.filter { !isGiven($0) }
            var element = first.flatMap { member in
                let isChoice = isOut && outline.oneOf.first == member.name
                return (isChoice ? ["# Exactly one of \(outline.oneOf.joined(separator: ", "))."] : [])
                    + self.lines(member, inComment: isOut)
            }
            if let start = element.firstIndex(where: { !$0.hasPrefix("#") }) {
                element = element[..<start] + ["- " + element[start]] + Self.indent(Array(element[(start + 1)...]))
            }
            lines = ["\(outline.name):"] + Self.indent(element + rest.flatMap { Self.indent(self.lines($0)) })
        }
        return begins ? lines.map { $0.hasPrefix("#") ? $0 : "#" + $0 } : lines
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

    private static func indent(_ lines: [String]) -> [String] { lines.map { "  " + $0 } }
}
