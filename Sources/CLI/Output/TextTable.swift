import Querying

/// Rows as columns of text that fit a width.
package struct TextTable: Sendable {
    /// A column and how it gives way where there is little room.
    package struct Column: Sendable {
        /// The head.
        package var title: String
        /// It is not cut below this many columns of the terminal.
        package var minimum: Int
        /// Where even the minimums don't fit, the column with the greatest number is left out first; 0 always stays.
        package var dropOrder: Int

        package init(_ title: String, minimum: Int = .max, dropOrder: Int = 0) {
            (self.title, self.minimum, self.dropOrder) = (title, minimum, dropOrder)
        }
    }

    private let columns: [Column]
    private var rows: [[String]] = []

    package init(_ columns: [Column]) {
        self.columns = columns
    }

    /// Adds a row; each cell is made fit for a terminal here.
    package mutating func append(_ cells: [String]) {
        rows.append(cells.map { TerminalText.escape($0) })
    }

    /// The head and the rows, two spaces between columns.
    ///
    /// - Parameter width: The terminal's columns; nil where nothing has to fit.
    /// - Returns: Lines without their ends.
    package func lines(width: Int?) -> [String] {
        let natural = columns.indices.map { column in
            rows.reduce(TerminalText.width(columns[column].title)) { max($0, TerminalText.width($1[column])) }
        }
        let widths = fit(natural, in: width)
        let shown = columns.indices.filter { widths[$0] > 0 }
        return ([columns.map(\.title)] + rows).map { cells in
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

    /// The width of each column; 0 for one that is left out.
    private func fit(_ natural: [Int], in width: Int?) -> [Int] {
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
        var rest = width - needed()
        return columns.indices.map { column in
            guard shown.contains(column) else { return 0 }
            let more = max(0, min(rest, natural[column] - least(column)))
            rest -= more
            return least(column) + more
        }
    }
}
