import ArgumentParser
import Foundation
import Postgres
import Querying
import Resources
import Vocabulary

enum OutputFormat: String, EnumerableFlag {
    case table
    case json
    case ndjson
    case csv

    static func help(for value: OutputFormat) -> ArgumentHelp? {
        switch value {
        case .table: "A table that fits the terminal; the default on a terminal."
        case .json: "One JSON array."
        case .ndjson: "One JSON object per line; the default where stdout is not a terminal."
        case .csv: "CSV (RFC 4180) with a header row."
        }
    }
}

/// A row that a command lists in pages.
protocol ListedRow: ShownResource {
    associatedtype Options: FilterGroup
    associatedtype Reveal: SightOptions = NoReveal
    associatedtype Cursor: LosslessStringConvertible & Sendable

    static var manual: String { get }
    static var most: Int { get }
    static var none: String { get }

    var cursor: Cursor { get }

    static func page(_ asked: ListRequest<Self>, _ connection: PostgresConnection) async throws -> [Self]
}

/// What a page of a list may hold.
struct ListRequest<Row: ListedRow> {
    var filter: Row.Options.Filter
    var cursor: Row.Cursor?
    var limit: Int
    var sight: Sight
}

/// A command that lists rows in pages: `list` of most groups.
struct ListCommand<Row: ListedRow>: ProgramCommand {
    static var manual: String { Row.manual }

    @OptionGroup var options: CommonOptions
    @OptionGroup var filter: Row.Options
    @Option(help: ArgumentHelp("The most rows to show\(Row.most < .max ? ", up to \(Row.most)" : "").")) var limit = 50
    @Option(help: .value("cursor", "Continue after this place, which the previous page has printed."))
    var after: String?
    @OptionGroup var output: ListOptions
    @OptionGroup var reveal: Row.Reveal
    @OptionGroup var reading: ReadOptions

    func run(in context: CommandContext) async throws {
        guard limit > 0, limit <= Row.most else {
            let range = Row.most < .max ? "is 1 to \(Row.most)" : "must be above zero"
            throw CommandFailure(.usage, "--limit \(range)")
        }
        let cursor = try after.map { text in
            guard let cursor = Row.Cursor(text) else {
                throw CommandFailure(.usage, "--after takes what the previous page has printed")
            }
            return cursor
        }
        let list = RowList<Row>(none: Row.none)
        try output.check(list, context.console)
        let asked = try filter.asked(context.console)
        let rows = try await options.withReader(context, timeout: reading.timeout.microseconds) { connection in
            let filter = try await asked.judged(connection)
            let request = ListRequest<Row>(filter: filter, cursor: cursor, limit: limit, sight: reveal.sight)
            return try await Row.page(request, connection)
        }
        try context.console.show(rows, output, list)
        if rows.count == limit, let last = rows.last?.cursor.description {
            // Quoted, since a handler's name may hold anything.
            context.console.message("more: --after '\(last)'")
        }
    }
}

/// The option of commands that show figures in a table or as one object.
struct ObjectFormatOptions: ParsableArguments {
    @Flag(help: "One JSON object instead of a table.") var json = false
}

/// The option of commands that show single rows as text or as an array.
struct TextFormatOptions: ParsableArguments {
    @Flag(help: "One JSON array instead of text.") var json = false
}

/// The options that decide what is shown of rows.
protocol SightOptions: ParsableArguments {
    var sight: Sight { get }
}

/// No options, for rows that hold no tokens.
struct NoReveal: SightOptions {
    var sight: Sight { Sight(tokens: true, payloads: true) }
}

/// The option to show registration tokens, which are masked otherwise.
struct RevealOptions: SightOptions {
    @Flag(name: .customLong("reveal"), help: "Show registration tokens. They are credentials.")
    private var isRevealed = false
    @Flag(name: .customLong("with-tokens"), help: .unlisted("What `export` calls it.")) private var isWithTokens = false

    var reveal: Bool { isRevealed || isWithTokens }

    /// What is shown of messages.
    var sight: Sight { Sight(tokens: reveal, payloads: true) }
}

struct ListOptions: ParsableArguments {
    @Flag(exclusivity: .exclusive) var format: OutputFormat?
    @Option(help: .value("names", "Only these columns of the table or CSV, in this order, separated by commas."))
    var columns: String?
    @Flag(help: "Print the rows in reverse order: the latest last.") var reverse = false

    /// Throws for options that do not fit a list, before anything is read.
    func check<Row>(_ list: RowList<Row>, _ console: Terminal) throws(CommandFailure) {
        _ = (try chosen(console), try chosen(list.columns))
    }

    /// Whether the options fit a command that shows one thing.
    var isForOne: Bool { format != .csv && columns == nil && !reverse }

    /// The chosen format, or the default, which is `piped` if stdout is not a terminal.
    func chosen(_ console: Terminal, piped: OutputFormat = .ndjson) throws(CommandFailure) -> OutputFormat {
        if columns != nil, format == .json || format == .ndjson {
            throw CommandFailure(.usage, "--columns is for tables and --csv; JSON always has every member")
        }
        return format ?? (console.output.isTerminal || columns != nil ? .table : piped)
    }

    /// The indices of the chosen ones of all columns, in the order of the command line.
    func chosen(_ known: [TextTable.Column]) throws(CommandFailure) -> [Int] {
        guard let columns else { return known.indices.filter { !known[$0].isExtra } }
        var places: [Int] = []
        for name in columns.split(separator: ",", omittingEmptySubsequences: false) {
            let wanted = name.trimmingCharacters(in: .whitespaces).lowercased().replacing(" ", with: "_")
            guard let place = known.firstIndex(where: { $0.answers(to: wanted) }) else {
                let names = known.map(\.name)
                let hint = Suggestion.nearest(to: wanted, among: names).map { "; did you mean '\($0)'?" } ?? ""
                throw CommandFailure(
                    .usage,
                    "--columns: unknown column '\(name)'\(hint)\ncolumns: \(names.joined(separator: ","))"
                )
            }
            places.append(place)
        }
        return places
    }
}

extension TextTable.Column {
    /// Whether it is the column's name or header.
    fileprivate func answers(to wanted: String) -> Bool {
        name == wanted || title.lowercased().replacing(" ", with: "_") == wanted
    }
}

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
    /// Shows a list, the latest first, in the chosen format, which is `piped` by default if stdout is no terminal.
    func show<Row>(_ rows: [Row], _ options: ListOptions, _ list: RowList<Row>, piped: OutputFormat = .ndjson) throws {
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
                return isPlain ? text : text.quoted(escapingWith: "\"")
            }
            try file.write(Array((fields.joined(separator: ",") + "\r\n").utf8))
        }
    }

    func show(json rows: [some ShownResource]) throws {
        var output = RowOutput(.json, tokens: false, to: self)
        for row in rows { try output.append(object: row.json(isForTerminal: output.isForTerminal)) }
        try output.finish()
    }
}

/// Writes rows to stdout in a machine-readable format.
struct RowOutput {
    private let format: OutputFormat
    private let file: ExportFile
    /// Whether characters that a terminal acts on are escaped.
    let isForTerminal: Bool
    private var lines: MessageLines
    private var hasRows = false
    /// Whether messages are written in reverse, at the end.
    private let isReversed: Bool
    private var held: [[UInt8]] = []

    init(_ format: OutputFormat, tokens: Bool, isReversed: Bool = false, to console: Terminal) {
        (self.format, self.isReversed) = (format, isReversed)
        file = console.outputFile
        isForTerminal = console.output.isTerminal
        lines = MessageLines(format == .csv ? .csv : .ndjson, tokens: tokens, isForTerminal: isForTerminal)
        lines.appendHead()
    }

    mutating func append(_ page: MessagePage, _ row: Int) throws {
        // The head.
        if isReversed, held.isEmpty { try flush() }
        lines.append(page, row)
        if isReversed {
            held.append(lines.take())
        } else if format == .json || lines.count > 1 << 16 {
            try flush()
        }
    }

    mutating func append(object: [UInt8]) throws {
        if format == .json {
            try begin()
            try file.write(object)
        } else {
            try file.write(object + [0x0A])
        }
    }

    mutating func flush() throws { try write(lines.take()) }

    /// Writes what is left of the rows, and the array's end.
    mutating func finish() throws {
        try flush()
        for row in held.reversed() { try write(row) }
        guard format == .json else { return }
        try file.write(Array((hasRows ? "\n]\n" : "[]\n").utf8))
    }

    private mutating func begin() throws {
        try file.write(Array((hasRows ? ",\n" : "[\n").utf8))
        hasRows = true
    }

    private mutating func write(_ lines: [UInt8]) throws {
        guard !lines.isEmpty else { return }
        if format == .json { try begin() }
        // An array's rows have commas between them.
        try file.write(format == .json ? lines.dropLast() : lines)
    }
}
