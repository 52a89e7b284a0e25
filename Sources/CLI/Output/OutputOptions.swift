import ArgumentParser
import Foundation
import Querying
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

/// The options of commands that show messages.
struct OutputOptions: ParsableArguments {
    @Flag(exclusivity: .exclusive)
    var format: OutputFormat?
    @OptionGroup private var tokens: RevealOptions

    /// Whether registration tokens are shown.
    var reveal: Bool { tokens.reveal }

    func chosen(_ console: Terminal) -> OutputFormat { format ?? (console.output.isTerminal ? .table : .ndjson) }
}

/// The option of commands that show figures in a table or as one object.
struct ObjectFormatOptions: ParsableArguments {
    @Flag(help: "One JSON object instead of a table.")
    var json = false
}

/// The option of commands that show single rows as text or as an array.
struct TextFormatOptions: ParsableArguments {
    @Flag(help: "One JSON array instead of text.")
    var json = false
}

/// The option to show registration tokens, which are masked otherwise.
struct RevealOptions: ParsableArguments {
    @Flag(name: .customLong("reveal"), help: "Show registration tokens. They are credentials.")
    private var isRevealed = false
    @Flag(name: .customLong("with-tokens"), help: ArgumentHelp("What `export` calls it.", visibility: .hidden))
    private var isWithTokens = false

    var reveal: Bool { isRevealed || isWithTokens }

    /// What is shown of messages.
    var sight: Sight { Sight(tokens: reveal, payloads: true) }
}

/// The options of commands that list rows.
struct ListOptions: ParsableArguments {
    @Flag(exclusivity: .exclusive)
    var format: OutputFormat?
    @Option(
        help: ArgumentHelp(
            "Only these columns of the table or CSV, in this order, separated by commas.",
            valueName: "names"
        )
    )
    var columns: String?
    @Flag(help: "Print the rows in reverse order: the latest last.")
    var reverse = false

    /// Whether the options fit a command that shows one thing.
    var isForOne: Bool { format != .csv && columns == nil && !reverse }

    /// The chosen format, or the default.
    ///
    /// - Parameters:
    ///   - console: The console to write to.
    ///   - piped: The default if stdout is not a terminal.
    /// - Throws: A usage error if columns are chosen for a format that has none.
    /// - Returns: The format.
    func chosen(_ console: Terminal, piped: OutputFormat = .ndjson) throws(CommandFailure) -> OutputFormat {
        if columns != nil, format == .json || format == .ndjson {
            throw CommandFailure(.usage, "--columns is for tables and --csv; JSON always has every member")
        }
        return format ?? (console.output.isTerminal || columns != nil ? .table : piped)
    }

    /// The indices of the chosen columns, in the order of the command line.
    ///
    /// - Parameter known: All columns of the list.
    /// - Throws: A usage error that names the columns.
    /// - Returns: The indices.
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
