import Querying

/// Writes rows to stdout in a machine-readable format.
struct RowOutput {
    private let format: OutputFormat
    private let file: ExportFile
    /// Whether characters that a terminal acts on are escaped.
    let isForTerminal: Bool
    private var lines: MessageLines
    private var hasRows = false

    init(_ format: OutputFormat, tokens: Bool, to console: Terminal) {
        self.format = format
        file = console.outputFile
        isForTerminal = console.output.isTerminal
        lines = MessageLines(format == .csv ? .csv : .ndjson, tokens: tokens, isForTerminal: isForTerminal)
        lines.appendHead()
    }

    mutating func append(_ page: MessagePage, _ row: Int) throws {
        if format == .json { try begin() }
        lines.append(page, row)
        if format == .json { return try write(dropping: 1) }
        if lines.count > 1 << 16 { try write(dropping: 0) }
    }

    /// Adds another JSON object.
    mutating func append(object: [UInt8]) throws {
        if format == .json {
            try begin()
            try file.write(object)
        } else {
            try file.write(object + [0x0A])
        }
    }

    /// Writes the buffered rows.
    mutating func flush() throws { try write(dropping: 0) }

    /// Writes the buffered rows and the array's end.
    mutating func finish() throws {
        try write(dropping: 0)
        guard format == .json else { return }
        try file.write(Array((hasRows ? "\n]\n" : "[]\n").utf8))
    }

    private mutating func begin() throws {
        try file.write(Array((hasRows ? ",\n" : "[\n").utf8))
        hasRows = true
    }

    private mutating func write(dropping count: Int) throws {
        let bytes = lines.take()
        guard !bytes.isEmpty else { return }
        try file.write(Array(bytes.dropLast(count)))
    }
}

extension Terminal {
    /// Writes one JSON array of rows with their own JSON form.
    func show<Row>(_ rows: [Row], json: (Row, Bool) throws -> [UInt8]) throws {
        var output = RowOutput(.json, tokens: false, to: self)
        for row in rows { try output.append(object: try json(row, output.isForTerminal)) }
        try output.finish()
    }
}
