import Querying
import Vocabulary

/// Rows as columns of text that fit a width.
package struct TextTable: Sendable {
    /// A column, and how it shrinks on a narrow terminal.
    package struct Column: Sendable, ExpressibleByStringLiteral {
        /// The header.
        package var title: String
        /// It is not cut below this many columns of the terminal.
        package var minimum: Int
        /// Where even the minimums don't fit, the column with the greatest number is left out first; 0 always stays.
        package var dropOrder: Int

        package init(_ title: String, minimum: Int = .max, dropOrder: Int = 0) {
            (self.title, self.minimum, self.dropOrder) = (title, minimum, dropOrder)
        }

        /// A column that is neither cut nor left out.
        package init(stringLiteral title: String) { self.init(title) }
    }

    private let columns: [Column]
    private var rows: [[String]] = []

    package init(_ columns: [Column]) {
        self.columns = columns
    }

    /// A table of these rows.
    ///
    /// - Parameters:
    ///   - columns: The columns.
    ///   - rows: A cell for each column; they may come from strangers.
    package init(_ columns: [Column], _ rows: [[String]]) {
        self.columns = columns
        for row in rows { append(row) }
    }

    /// Adds a row; its cells may come from strangers.
    package mutating func append(_ cells: [String]) {
        rows.append(cells.map { TerminalText.escape($0) })
    }

    /// The header and the rows, two spaces between columns.
    ///
    /// Where the columns that must stay don't fit, each row becomes a list of names and values, in which nothing is cut.
    ///
    /// - Parameters:
    ///   - width: The terminal's columns; nil where nothing has to fit.
    ///   - hasHeader: Whether the titles are shown.
    /// - Returns: Lines without their ends.
    package func lines(width: Int?, hasHeader: Bool = true) -> [String] {
        let natural = columns.indices.map { column in
            rows.reduce(TerminalText.width(columns[column].title)) { max($0, TerminalText.width($1[column])) }
        }
        guard let widths = fit(natural, in: width) else { return lists(width: width) }
        let shown = columns.indices.filter { widths[$0] > 0 }
        return ((hasHeader ? [columns.map(\.title)] : []) + rows).map { cells in
            var line = ""
            for column in shown {
                let cell = TerminalText.cut(cells[column], to: widths[column])
                line += cell
                guard column != shown.last else { break }
                line += String(repeating: " ", count: widths[column] - TerminalText.width(cell) + 2)
            }
            return line
        }
    }

    /// The width of each column, 0 for one that is left out; nil where the ones that must stay don't fit.
    private func fit(_ natural: [Int], in width: Int?) -> [Int]? {
        guard let width else { return natural }
        var shown = Set(columns.indices)
        func least(_ column: Int) -> Int {
            min(natural[column], max(columns[column].minimum, TerminalText.width(columns[column].title)))
        }
        func needed() -> Int { shown.reduce(0) { $0 + least($1) + 2 } - 2 }
        while needed() > width,
            let last = shown.max(by: { columns[$0].dropOrder < columns[$1].dropOrder }), columns[last].dropOrder > 0
        {
            shown.remove(last)
        }
        guard needed() <= width else { return nil }
        var rest = width - needed()
        return columns.indices.map { column in
            guard shown.contains(column) else { return 0 }
            let more = max(0, min(rest, natural[column] - least(column)))
            rest -= more
            return least(column) + more
        }
    }

    /// Each row as a list of names and values, with an empty line between rows.
    private func lists(width: Int?) -> [String] {
        var lines: [String] = []
        for cells in rows {
            if !lines.isEmpty { lines.append("") }
            var facts = FactList()
            for (column, cell) in zip(columns, cells) { facts.add(column.title, cell) }
            lines += facts.lines(width: width)
        }
        return lines
    }
}
