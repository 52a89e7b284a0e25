import ArgumentParser
import Glibc
import Querying

/// How rows are shown.
enum OutputFormat: String, EnumerableFlag {
    case table
    case json
    case ndjson
    case csv

    static func help(for value: OutputFormat) -> ArgumentHelp? {
        switch value {
        case .table: "Columns that fit the terminal; the default on one."
        case .json: "One JSON array."
        case .ndjson: "One JSON object a line; the default where stdout is no terminal."
        case .csv: "RFC 4180, with a head."
        }
    }
}

/// The options about what is shown and how.
struct OutputOptions: ParsableArguments {
    @Flag(exclusivity: .exclusive)
    var format: OutputFormat?
    @Flag(help: "Show registration tokens. They are credentials.")
    var reveal = false

    /// The format, chosen or by default.
    var chosen: OutputFormat { format ?? (Screen.isTerminal ? .table : .ndjson) }
}

/// The terminal that stdout may be.
enum Screen {
    /// Whether stdout is one.
    static var isTerminal: Bool { isatty(STDOUT_FILENO) == 1 }

    /// Its columns; nil where stdout is none, and nothing has to fit.
    static var width: Int? {
        guard isTerminal else { return nil }
        var size = winsize()
        guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
        return Int(size.ws_col)
    }
}

/// Writes rows to stdout in one of the machine formats.
struct RowOutput {
    private let format: OutputFormat
    private let isForTerminal = Screen.isTerminal
    private var lines: MessageLines
    private var hasRows = false

    init(_ format: OutputFormat, tokens: Bool) {
        self.format = format
        lines = MessageLines(format == .csv ? .csv : .ndjson, tokens: tokens, isForTerminal: isForTerminal)
        lines.appendHead()
    }

    /// Adds a message.
    mutating func append(_ page: MessagePage, _ row: Int) throws {
        if format == .json { try begin() }
        lines.append(page, row)
        if format == .json { return try write(dropping: 1) }
        if lines.count > 1 << 16 { try write(dropping: 0) }
    }

    /// Adds a JSON object of another kind.
    mutating func append(object: [UInt8]) throws {
        if format == .json {
            try begin()
            try ExportFile.standardOutput.write(object)
        } else {
            try ExportFile.standardOutput.write(object + [0x0A])
        }
    }

    /// Writes what waits.
    mutating func flush() throws { try write(dropping: 0) }

    /// Writes what waits, and the array's end.
    mutating func finish() throws {
        try write(dropping: 0)
        guard format == .json else { return }
        try ExportFile.standardOutput.write(Array((hasRows ? "\n]\n" : "[]\n").utf8))
    }

    private mutating func begin() throws {
        try ExportFile.standardOutput.write(Array((hasRows ? ",\n" : "[\n").utf8))
        hasRows = true
    }

    private mutating func write(dropping count: Int) throws {
        let bytes = lines.take()
        guard !bytes.isEmpty else { return }
        try ExportFile.standardOutput.write(Array(bytes.dropLast(count)))
    }
}
