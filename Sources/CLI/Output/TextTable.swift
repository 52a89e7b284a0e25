package import Vocabulary

/// Rows as columns of text that fit a width.
package struct TextTable: Sendable {
    package typealias Column = TableColumn

    private let columns: [Column]
    private var rows: [[String]] = []

    /// A table of these rows, with a cell for each column; cells may be untrusted.
    package init(_ columns: [Column], _ rows: [[String]] = []) {
        self.columns = columns
        for row in rows { append(row) }
    }

    package mutating func append(_ cells: [String]) {
        rows.append(cells.map { TerminalText.escape($0) })
    }

    /// The lines without their ends, two spaces between columns.
    ///
    /// If the mandatory columns don't fit, each row becomes a list of names and values, in which nothing is cut.
    /// `width` is the terminal's, nil for no limit.
    package func lines(width: Int?, hasHeader: Bool = true, isColoured: Bool = false) -> [String] {
        guard let widths = fit(natural, in: width) else { return lists(width: width, isColoured) }
        let shown = columns.indices.filter { widths[$0] > 0 }
        return ((hasHeader ? [columns.map(\.title)] : []) + rows).map { cells in
            var line = ""
            for column in shown {
                let cell = Self.cut(cells[column], to: widths[column], columns[column].cut)
                line += isColoured ? tone(of: cells[column], in: column)?.painted(cell) ?? cell : cell
                guard column != shown.last else { break }
                line += String(repeating: " ", count: widths[column] - TerminalText.width(cell) + 2)
            }
            return line
        }
    }

    package func leftOut(width: Int?) -> [String] {
        guard let widths = fit(natural, in: width) else { return [] }
        return columns.indices.filter { widths[$0] == 0 }.map { columns[$0].name }
    }

    private static func cut(_ text: String, to width: Int, _ cut: Column.Cut) -> String {
        switch cut {
        case .end: TerminalText.cut(text, to: width)
        case .middle: TerminalText.cutMiddle(text, to: width)
        case .prefix: String(text.prefix(width))
        }
    }

    private var natural: [Int] {
        columns.indices.map { column in
            rows.reduce(TerminalText.width(columns[column].title)) { max($0, TerminalText.width($1[column])) }
        }
    }

    /// The width of each column, 0 if left out; nil if the mandatory ones don't fit.
    private func fit(_ natural: [Int], in width: Int?) -> [Int]? {
        guard let width else { return natural.map { max($0, 1) } }
        let least = columns.indices.map { column in
            max(1, min(natural[column], max(columns[column].minimum, TerminalText.width(columns[column].title))))
        }
        var shown = Set(columns.indices.filter { columns[$0].dropOrder == 0 })
        func needed(_ shown: Set<Int>) -> Int { shown.reduce(0) { $0 + least[$1] + 2 } - 2 }
        for column in columns.indices.sorted(by: { columns[$0].dropOrder < columns[$1].dropOrder })
        where needed(shown.union([column])) <= width {
            shown.insert(column)
        }
        guard needed(shown) <= width else { return nil }
        var rest = width - needed(shown)
        return columns.indices.map { column in
            guard shown.contains(column) else { return 0 }
            let more = max(0, min(rest, natural[column] - least[column]))
            rest -= more
            return least[column] + more
        }
    }

    private func tone(of cell: String, in column: Int) -> Tone? {
        columns[column].isState ? Tone(state: cell) : nil
    }

    /// Each row as a list of names and values, with an empty line between rows.
    private func lists(width: Int?, _ isColoured: Bool) -> [String] {
        var lines: [String] = []
        for cells in rows {
            if !lines.isEmpty { lines.append("") }
            var facts = FactList()
            for (column, cell) in zip(columns.indices, cells) {
                facts.add(columns[column].title, cell, tone(of: cell, in: column))
            }
            lines += facts.lines(width: width, isColoured: isColoured)
        }
        return lines
    }
}

/// Names with values, one below the other; long values are wrapped, and nothing is cut.
struct FactList: Sendable {
    private var facts: [(name: String, value: String, tones: (name: Tone?, value: Tone?))] = []
    private let minimum: Int

    /// A list of these facts; values may be untrusted.
    init(_ facts: [(name: String, text: String)] = [], nameWidth minimum: Int = 0) {
        self.minimum = minimum
        for (name, text) in facts { add(name, text) }
    }

    /// Adds a fact; the value may be untrusted.
    mutating func add(_ name: String, _ value: String, _ tone: Tone? = nil) {
        facts.append((name, TerminalText.escape(value), (nil, tone)))
    }

    mutating func add(severity name: String, _ value: String) {
        facts.append((name, TerminalText.escape(value), (Tone(state: name), nil)))
    }

    /// The lines without their ends, at least one per fact.
    ///
    /// `width` is the terminal's, nil for no limit; `isColoured` applies tones.
    func lines(width: Int?, isColoured: Bool = false) -> [String] {
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

/// How urgent a state or result is; shown as a colour on a terminal.
enum Tone: String {
    case good = "32"
    case warning = "33"
    case bad = "31"

    /// The tone of a state's text, such as `failing, next probe in 24 s`, `2. retry`, `1 WRONG`; nil if it is neutral.
    init?(state: String) {
        if state.hasPrefix("0 ") { return nil }
        let word = state.split { !$0.isLetter }.first.map(String.init) ?? ""
        switch word {
        case "ok", "active", "done", "finished": self = .good
        case "critical", "FAILED", "failed", "failing", "WRONG", "rejected", "exhausted": self = .bad
        case "warning", "warnings", "paused", "held", "unclaimed", "retry", "postponed", "pending", "released":
            self = .warning
        default:
            guard state.contains("no process runs it") else { return nil }
            self = .warning
        }
    }

    func painted(_ text: some StringProtocol) -> String { "\u{1B}[\(rawValue)m\(text)\u{1B}[0m" }
}

extension TerminalText {
    /// The columns that an escaped text takes.
    package static func width(_ text: some StringProtocol) -> Int {
        text.unicodeScalars.reduce(0) { $0 + width($1) }
    }

    /// Cuts an escaped text to a number of columns, marking the cut with `…`.
    package static func cut(_ text: String, to limit: Int) -> String {
        var columns = 0
        var marks = 0
        var kept = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            let width = width(scalar)
            // Marks take no column, so a text of marks alone is limited here.
            marks = width == 0 ? marks + 1 : 0
            guard columns + width <= limit, marks <= 8 else {
                while columns > max(0, limit - 1), let last = kept.popLast() { columns -= Self.width(last) }
                return limit > 0 ? String(kept) + "…" : ""
            }
            columns += width
            kept.append(scalar)
        }
        return text
    }

    /// Cuts the middle out of an escaped text, with `…` in its place.
    package static func cutMiddle(_ text: String, to limit: Int) -> String {
        guard width(text) > limit, limit > 2 else { return cut(text, to: limit) }
        var end = String.UnicodeScalarView()
        var columns = 0
        for scalar in text.unicodeScalars.reversed() {
            let width = width(scalar)
            guard columns + width <= limit / 2, end.count < limit * 2 else { break }
            columns += width
            end.insert(scalar, at: end.startIndex)
        }
        // A mark without its character would attach to the ellipsis.
        while let first = end.first, width(first) == 0 { end.removeFirst() }
        let start = cut(text, to: limit - columns)
        return (start.hasSuffix("…") ? start : start + "…") + String(end)
    }

    /// 0 for combining marks, 2 for East Asian wide characters and pictographs, else 1.
    private static func width(_ scalar: Unicode.Scalar) -> Int {
        if scalar.value < 0x300 { return 1 }
        switch scalar.properties.generalCategory {
        case .nonspacingMark, .enclosingMark: return 0
        default: break
        }
        switch scalar.value {
        case 0x1100...0x115F, 0x2E80...0x303E, 0x3041...0xA4CF, 0xA960...0xA97F, 0xAC00...0xD7A3, 0xF900...0xFAFF,
            0xFE30...0xFE6F, 0xFF00...0xFF60, 0xFFE0...0xFFE6, 0x1F300...0x1F64F, 0x1F680...0x1F6FF, 0x1F900...0x1F9FF,
            0x20000...0x3FFFD:
            return 2
        default: return 1
        }
    }
}

extension String.UnicodeScalarView {
    fileprivate mutating func popLast() -> Unicode.Scalar? { isEmpty ? nil : removeLast() }
}
