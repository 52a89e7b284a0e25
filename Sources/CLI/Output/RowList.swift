import Querying
import Resources
import Vocabulary

struct RowList<Row> {
    /// The text for an empty list: `no messages match`.
    var none: String
    var columns: [TextTable.Column]
    var cells: (Row) throws -> [String]
    /// A row's values as CSV has them, one for each column; nil for null.
    var texts: (Row) throws -> [String?]
    /// A row's JSON object; the flag says whether it is for a terminal.
    var json: (Row, Bool) throws -> [UInt8]
}

extension RowList where Row: ShownResource {
    /// Shows rows by their fields, secret ones on request.
    init(none: String, tokens: Bool = false) {
        let fields = Row.tabled(tokens: tokens)
        self.init(none: none, columns: fields.compactMap(\.column)) { row in
            fields.map { $0.tableCell(row) }
        } texts: { row in
            fields.map { $0.value(row).text }
        } json: {
            $0.json(isForTerminal: $1)
        }
    }
}

extension Terminal {
    /// Shows a list in the chosen format.
    ///
    /// - Parameters:
    ///   - rows: The rows, the latest first.
    ///   - options: The format, the columns and the order.
    ///   - list: How the rows are shown.
    ///   - piped: The default format if stdout is not a terminal.
    /// - Throws: ``CommandFailure`` for unknown columns; `ExportError` if stdout can't be written.
    func show<Row>(
        _ rows: [Row],
        _ options: ListOptions,
        _ list: RowList<Row>,
        piped: OutputFormat = .ndjson
    ) throws {
        let format = try options.chosen(self, piped: piped)
        let places = try options.chosen(list.columns)
        let rows = options.reverse ? rows.reversed() : rows
        switch format {
        case .table:
            let cells = try rows.map { row in
                let cells = try list.cells(row)
                return places.map { cells[$0] }
            }
            var columns = places.map { list.columns[$0] }
            // Columns that were asked for are stacked rather than left out.
            if options.columns != nil { for place in columns.indices { columns[place].dropOrder = 0 } }
            if !rows.isEmpty { show(TextTable(columns, cells)) }
        case .csv: try csv(rows, places, list)
        case .json, .ndjson:
            var output = RowOutput(format, tokens: false, to: self)
            for row in rows { try output.append(object: try list.json(row, output.isForTerminal)) }
            try output.finish()
        }
        if rows.isEmpty { message(list.none) }
    }

    /// Writes a table that fits the terminal, and names the columns that did not; `way` says how to see them.
    func show(_ table: TextTable, way: String = "--columns chooses") {
        self.table(table)
        tell(leftOut: table.leftOut(width: width), way: way)
    }

    /// Names the columns that did not fit.
    func tell(leftOut: [String], way: String) {
        guard !leftOut.isEmpty else { return }
        message("not shown at this width: \(leftOut.joined(separator: ", ")) (\(way))")
    }

    private func csv<Row>(_ rows: [Row], _ places: [Int], _ list: RowList<Row>) throws {
        let file = outputFile
        try file.write(Array((places.map { list.columns[$0].name }.joined(separator: ",") + "\r\n").utf8))
        for row in rows {
            let texts = try list.texts(row)
            let fields = places.map { place in
                // As in exports: an empty field is null, the empty string has quotes.
                guard var text = texts[place] else { return "" }
                if output.isTerminal { text = TerminalText.escape(text) }
                let isPlain =
                    !text.isEmpty && !text.utf8.contains { #",""#.utf8.contains($0) || $0 == 0x0A || $0 == 0x0D }
                return isPlain ? text : "\"" + text.replacing("\"", with: "\"\"") + "\""
            }
            try file.write(Array((fields.joined(separator: ",") + "\r\n").utf8))
        }
    }
}
