import Foundation
import Glibc
import Querying
import Telemetry
import Vocabulary
import Worker

/// Where a command reads and writes: data goes to `output`, everything for people to `errors`.
package struct Console: Sendable {
    /// One of the process's standard streams, or what a test puts in its place.
    package struct Stream: Sendable {
        /// The open file.
        package var descriptor: Int32
        /// Whether a person sits at it.
        package var isTerminal: Bool

        /// A stream of this descriptor.
        package init(_ descriptor: Int32, isTerminal: Bool) {
            (self.descriptor, self.isTerminal) = (descriptor, isTerminal)
        }

        /// A stream that is a terminal where the system says so.
        init(_ descriptor: Int32) { self.init(descriptor, isTerminal: isatty(descriptor) == 1) }
    }

    /// Where answers come from.
    package let input: Stream
    /// Where data goes.
    package let output: Stream
    /// Where messages, questions and progress go.
    package let errors: Stream
    /// Whether states and severities in the data have a colour: never where stdout is not a terminal.
    let isColoured: Bool
    /// A terminal's width that is given; nil asks the terminal.
    private let fixedColumns: Int?

    /// A console over three streams.
    ///
    /// - Parameters:
    ///   - input: Where answers come from.
    ///   - output: Where data goes.
    ///   - errors: Where everything for people goes.
    ///   - columns: The terminal's width; nil asks the terminal, each time.
    ///   - environment: The environment's variables, of which `NO_COLOR` turns colours off.
    package init(
        input: Stream,
        output: Stream,
        errors: Stream,
        columns: Int? = nil,
        environment: [String: String] = ProcessInfo.processInfo.environment
    ) {
        (self.input, self.output, self.errors, fixedColumns) = (input, output, errors, columns)
        isColoured = output.isTerminal && LogFormat.wantsColours(environment["NO_COLOR"])
    }

    /// The process's own streams.
    package static var standard: Console {
        Console(input: Stream(STDIN_FILENO), output: Stream(STDOUT_FILENO), errors: Stream(STDERR_FILENO))
    }

    /// The width that data has to fit; nil where stdout is not a terminal.
    var width: Int? { output.isTerminal ? columns(of: output) : nil }

    /// The width that messages which are redrawn in place have to fit.
    var messageWidth: Int { columns(of: errors) }

    private func columns(of stream: Stream) -> Int {
        if let fixedColumns { return fixedColumns }
        var size = winsize()
        guard ioctl(stream.descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
        return Int(size.ws_col)
    }

    /// stdout for rows of any number; a write that fails is an error there.
    var outputFile: ExportFile { ExportFile(stream: output.descriptor) }

    /// Writes data, as it is.
    func data(_ text: String) {
        write(text + "\n", to: output)
    }

    /// Writes JSON: unchanged, but on a terminal with escapes for characters that a terminal acts on.
    func data(json: Data) {
        let text = String(decoding: json, as: UTF8.self)
        data(output.isTerminal ? TerminalText.escape(json: text) : text)
    }

    /// Writes a value as one line of JSON, its keys in snake case and sorted.
    func json(_ value: some Encodable) throws {
        data(json: try Self.encoded(value))
    }

    /// A value as a JSON object, its keys in snake case and sorted.
    ///
    /// - Parameters:
    ///   - value: The value.
    ///   - isForTerminal: Whether characters that a terminal acts on are escaped.
    /// - Throws: `EncodingError`
    /// - Returns: UTF-8 text on one line.
    static func object(_ value: some Encodable, isForTerminal: Bool) throws -> [UInt8] {
        let json = try encoded(value)
        return isForTerminal
            ? Array(TerminalText.escape(json: String(decoding: json, as: UTF8.self)).utf8) : [UInt8](json)
    }

    private static func encoded(_ value: some Encodable) throws -> Data {
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return try encoder.encode(value)
    }

    /// Writes a table that fits the terminal.
    func table(_ table: TextTable) {
        for line in table.lines(width: width, isColoured: isColoured) { data(line) }
    }

    /// Writes names and values that fit the terminal.
    func facts(_ facts: FactList) {
        for line in facts.lines(width: width, isColoured: isColoured) { data(line) }
    }

    /// Tells people something, with escapes for characters that a terminal acts on.
    func message(_ text: String) {
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map { TerminalText.escape($0) }
        write(lines.joined(separator: "\n") + "\n", to: errors)
    }

    /// Replaces the line that the terminal's cursor is on.
    func redraw(_ text: String) {
        write("\r\u{1B}[K" + TerminalText.cut(TerminalText.escape(text), to: messageWidth - 1), to: errors)
    }

    /// Writes a text that is safe for terminals already.
    func write(_ text: String, to stream: Stream) {
        Array(text.utf8).withUnsafeBytes { bytes in
            var rest = bytes[...]
            while !rest.isEmpty {
                let part = UnsafeRawBufferPointer(rebasing: rest)
                let written = Glibc.write(stream.descriptor, part.baseAddress, part.count)
                if written > 0 {
                    rest = rest.dropFirst(written)
                } else if errno != EINTR {
                    return
                }
            }
        }
    }
}
