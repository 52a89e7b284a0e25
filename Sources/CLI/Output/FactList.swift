import Vocabulary

/// Names with values, one below the other; long values are wrapped, and nothing is cut.
package struct FactList: Sendable {
    private var facts: [(name: String, value: String, tones: (name: Tone?, value: Tone?))] = []
    private let minimum: Int

    package init(nameWidth minimum: Int = 0) {
        self.minimum = minimum
    }

    /// Adds a fact; the value may be untrusted.
    package mutating func add(_ name: String, _ value: String) {
        facts.append((name, TerminalText.escape(value), (nil, nil)))
    }

    mutating func add(_ name: String, _ value: String, _ tone: Tone?) {
        facts.append((name, TerminalText.escape(value), (nil, tone)))
    }

    /// Adds a fact whose name is a severity.
    mutating func add(severity name: String, _ value: String) {
        facts.append((name, TerminalText.escape(value), (Tone(state: name), nil)))
    }

    /// The lines without their ends, at least one per fact.
    ///
    /// `width` is the terminal's, nil for no limit; `isColoured` applies tones.
    package func lines(width: Int?, isColoured: Bool = false) -> [String] {
        func painted(_ text: String, _ tone: Tone?) -> String {
            isColoured && !text.isEmpty ? tone?.painted(text) ?? text : text
        }
        let indent = facts.reduce(minimum - 2) { max($0, TerminalText.width($1.name)) } + 2
        return facts.flatMap { name, value, tones in
            let parts = width.map { Self.wrap(value, to: max(10, $0 - indent)) } ?? [value]
            return parts.enumerated().map { index, part in
                let start = index == 0 ? name : ""
                return painted(start, tones.name)
                    + String(repeating: " ", count: indent - TerminalText.width(start)) + painted(part, tones.value)
            }
        }
    }

    /// Breaks an escaped text at spaces, and inside a word only if the word is too long.
    static func wrap(_ text: String, to limit: Int) -> [String] {
        var lines: [String] = []
        var line = ""
        var columns = 0
        for word in text.split(separator: " ", omittingEmptySubsequences: false) {
            let width = TerminalText.width(word)
            if !line.isEmpty, columns + 1 + width > limit {
                lines.append(line)
                (line, columns) = ("", 0)
            } else if !line.isEmpty {
                line += " "
                columns += 1
            }
            for scalar in word.unicodeScalars {
                let width = TerminalText.width(String(scalar))
                if columns + width > limit {
                    lines.append(line)
                    (line, columns) = ("", 0)
                }
                line.unicodeScalars.append(scalar)
                columns += width
            }
        }
        return lines + [line]
    }
}
