import ArgumentParser

/// How rows are shown.
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

/// The options for how messages are shown.
struct OutputOptions: ParsableArguments {
    @Flag(exclusivity: .exclusive)
    var format: OutputFormat?
    @Flag(help: "Show registration tokens. They are credentials.")
    var reveal = false

    /// The format, chosen or by default.
    func chosen(_ console: Console) -> OutputFormat { format ?? (console.output.isTerminal ? .table : .ndjson) }
}

/// The option of commands that show figures in a table, or as one object.
struct ObjectFormatOptions: ParsableArguments {
    @Flag(help: "One JSON object instead of a table.")
    var json = false
}

/// The option of commands that show single rows as text, or as an array.
struct TextFormatOptions: ParsableArguments {
    @Flag(help: "One JSON array instead of text.")
    var json = false
}

/// The option of commands that show messages, and mask what is a credential.
struct RevealOptions: ParsableArguments {
    @Flag(help: "Show registration tokens. They are credentials.")
    var reveal = false
}

/// The options for how other rows are shown.
struct ListFormatOptions: ParsableArguments {
    @Flag(help: "One JSON array instead of a table.")
    var json = false
    @Flag(help: "One JSON object per line; the default where stdout is not a terminal.")
    var ndjson = false

    /// The machine format; nil for a table.
    func chosen(_ console: Console) -> OutputFormat? {
        json ? .json : ndjson || !console.output.isTerminal ? .ndjson : nil
    }
}
