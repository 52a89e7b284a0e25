/// Lays out the argument parser's help and errors for a terminal.
///
/// The parser breaks every line at the width, including examples, which then can't be copied, and leaves the usage as
/// one long line. So it is asked for unbroken lines, which are broken here: prose and descriptions at spaces, examples
/// never.
enum HelpLayout {
    /// The column at which the parser's descriptions begin.
    private static let labels = 26
    /// The maximum width: longer lines are hard to read, however wide the terminal is.
    private static let widest = 100
    /// The width to ask the parser for.
    static let unbroken = 100_000

    /// Whether a text is a command's help, not the version, a completion script or a dump.
    static func isHelp(_ text: String) -> Bool { text.hasPrefix("OVERVIEW: ") || text.hasPrefix("USAGE: ") }

    /// Lays out a help text; lines of examples stay as they are.
    static func help(_ text: String, columns: Int?) -> String {
        let columns = min(columns ?? 80, widest)
        var lines: [String] = []
        var paragraph: [Substring] = []
        var isTable = false
        var isExample = false
        func endParagraph() {
            if !paragraph.isEmpty { lines += FactList.wrap(paragraph.joined(separator: " "), to: columns) }
            paragraph = []
        }
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
            isTable = isTable || isHeader(line)
            if line.hasPrefix("USAGE: ") {
                endParagraph()
                lines += usage(line, columns)
            } else if isTable {
                endParagraph()
                lines += row(line, columns)
            } else if line.isEmpty || line.hasPrefix(" ") || line.hasSuffix(":") {
                endParagraph()
                isExample = line == "Examples:" || isExample && !line.isEmpty
                lines += isExample ? [String(line)] : wrapped(line, columns)
            } else {
                paragraph.append(line)
            }
        }
        endParagraph()
        return lines.joined(separator: "\n")
    }

    static func error(_ text: String, columns: Int) -> String {
        let columns = min(columns, widest)
        return text.split(separator: "\n", omittingEmptySubsequences: false).flatMap { line in
            if line.hasPrefix("Usage: ") { return usage(line, columns) }
            return wrapped(line, columns)
        }.joined(separator: "\n")
    }

    private static func isHeader(_ line: Substring) -> Bool {
        line.hasSuffix(":") && line.dropLast().allSatisfy { $0.isUppercase || $0 == " " } && line.count > 1
    }

    /// Lays out a section's line: its description is wrapped in its own column.
    private static func row(_ line: Substring, _ columns: Int) -> [String] {
        guard line.count > columns else { return [String(line)] }
        let label = line.prefix(labels)
        guard label.last == " ", columns > labels + 10 else { return wrapped(line, columns) }
        let parts = FactList.wrap(String(line.dropFirst(labels)), to: columns - labels)
        return parts.enumerated().map { index, part in
            (index == 0 ? String(label) : String(repeating: " ", count: labels)) + part
        }
    }

    private static func wrapped(_ line: Substring, _ columns: Int) -> [String] {
        let start = String(line.prefix { $0 == " " })
        return FactList.wrap(String(line.drop { $0 == " " }), to: columns - start.count).map { start + $0 }
    }

    private static func usage(_ line: Substring, _ columns: Int) -> [String] {
        let indent = String(repeating: " ", count: "USAGE: ".count)
        var lines: [String] = []
        var current = ""
        for word in words(line) {
            if !current.isEmpty, current.count + 1 + word.count > columns {
                lines.append(current)
                current = indent + word
            } else {
                current += current.isEmpty ? word : " " + word
            }
        }
        return lines + [current]
    }

    /// The words of a usage; an option in brackets, or with its value, is one word.
    private static func words(_ line: Substring) -> [String] {
        var words: [String] = []
        var depth = 0
        for part in line.split(separator: " ") {
            let follows = part.hasPrefix("<") && words.last?.hasPrefix("--") == true
            if depth > 0 || follows { words[words.count - 1] += " " + part } else { words.append(String(part)) }
            depth += part.count { "[(".contains($0) } - part.count { "])".contains($0) }
        }
        return words
    }
}
