import Foundation
import Glibc
import Querying
import Synchronization
import Telemetry
import Vocabulary

/// A command's streams: data goes to `output`, everything for people to `errors`.
package struct Terminal: Sendable {
    /// A standard stream, or a test's substitute.
    package struct Stream: Sendable {
        package var descriptor: Int32
        package var isTerminal: Bool

        package init(_ descriptor: Int32, isTerminal: Bool) {
            (self.descriptor, self.isTerminal) = (descriptor, isTerminal)
        }

        /// A stream that is a terminal if the system says so.
        init(_ descriptor: Int32) { self.init(descriptor, isTerminal: isatty(descriptor) == 1) }
    }

    package let input: Stream
    package let output: Stream
    package let errors: Stream
    /// Whether states and severities in the data are coloured: never unless stdout is a terminal.
    let isColoured: Bool
    /// A fixed width of the terminal; nil asks the terminal.
    private let fixedColumns: Int?
    private let loss = Loss()

    /// The first failure to write data.
    private final class Loss: Sendable {
        let error = Mutex<ExportError?>(nil)
    }

    /// A console over three streams.
    ///
    /// `columns` is the terminal's width, nil to ask the terminal each time; `NO_COLOR` in the environment turns
    /// colours off.
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

    package static var standard: Terminal {
        Terminal(input: Stream(STDIN_FILENO), output: Stream(STDOUT_FILENO), errors: Stream(STDERR_FILENO))
    }

    /// The width that data has to fit; nil unless stdout is a terminal.
    var width: Int? { output.isTerminal ? columns(of: output) : nil }

    /// The width for messages that are redrawn in place.
    var messageWidth: Int { columns(of: errors) }

    private func columns(of stream: Stream) -> Int {
        if let fixedColumns { return fixedColumns }
        var size = winsize()
        guard ioctl(stream.descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
        return Int(size.ws_col)
    }

    /// stdout for any number of rows; failed writes throw.
    var outputFile: ExportFile { ExportFile(stream: output.descriptor) }

    /// Throws if any data could not be written: the exit code is to say so.
    func requireWritten() throws(ExportError) {
        if let error = loss.error.withLock(\.self) { throw error }
    }

    func data(_ text: String) {
        write(text + "\n", to: output)
    }

    /// Writes JSON; on a terminal, characters that it acts on are escaped.
    func data(json: Data) {
        let text = String(decoding: json, as: UTF8.self)
        data(output.isTerminal ? TerminalText.escape(json: text) : text)
    }

    /// Writes a value as one line of JSON, with sorted keys in snake case.
    package func json(_ value: some Encodable) throws {
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        data(json: try encoder.encode(value))
    }

    func json(object: JSONMembers) throws { try json(object) }

    /// The text in a tone's colour, where data is coloured.
    func painted(_ text: some StringProtocol, _ tone: Tone?) -> String {
        isColoured && !text.isEmpty ? tone?.painted(text) ?? String(text) : String(text)
    }

    package func table(_ table: TextTable) {
        for line in table.lines(width: width, isColoured: isColoured) { data(line) }
    }

    func facts(_ facts: FactList) {
        for line in facts.lines(width: width, isColoured: isColoured) { data(line) }
    }

    package func message(_ text: String) {
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map { TerminalText.escape($0) }
        write(lines.joined(separator: "\n") + "\n", to: errors)
    }

    /// Replaces the line at the terminal's cursor.
    func redraw(_ text: String) {
        write("\r\u{1B}[K" + TerminalText.cut(TerminalText.escape(text), to: messageWidth - 1), to: errors)
    }

    /// Writes a text that is already safe for terminals.
    func write(_ text: String, to stream: Stream) {
        let bytes = Array(text.utf8)
        guard stream.descriptor == errors.descriptor else {
            do throws(ExportError) {
                try ExportFile(stream: stream.descriptor).write(bytes)
            } catch {
                loss.error.withLock { $0 = $0 ?? error }
            }
            return
        }
        // Data waits for its reader; messages don't: a command must go on where nobody reads them.
        var written = 0
        while written < bytes.count {
            let count = bytes[written...].withUnsafeBytes { Glibc.write(stream.descriptor, $0.baseAddress, $0.count) }
            if count <= 0, errno != EINTR { return }
            written += max(0, count)
        }
    }
}

/// The members of a JSON object; absent values are left out.
struct JSONMembers: Encodable, ExpressibleByDictionaryLiteral {
    private struct Name: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }

        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    private var members: [(name: String, value: any Encodable)]

    init(dictionaryLiteral members: (String, (any Encodable)?)...) {
        self.members = members.compactMap { name, value in value.map { (name, $0) } }
    }

    mutating func add(_ name: String, _ value: some Encodable) { members.append((name, value)) }

    func encode(to encoder: any Encoder) throws {
        var object = encoder.container(keyedBy: Name.self)
        for (name, value) in members { try object.encode(value, forKey: Name(stringValue: name)) }
    }
}

/// Indents JSON for people; names, strings and numbers stay verbatim.
package enum JSONIndent {
    /// The lines, two spaces per level, safe for a terminal.
    ///
    /// `json` must be valid.
    package static func lines(_ json: [UInt8]) -> [String] { JSONLayout.lines(json).map { TerminalText.escape($0) } }
}

extension Terminal {
    /// Asks before something irreversible, unless `--yes` was given; `reason` is for the error without a terminal.
    func confirm(_ question: String, yes isConfirmed: Bool, because reason: String) throws(CommandFailure) {
        guard !isConfirmed else { return }
        guard input.isTerminal, errors.isTerminal else {
            throw CommandFailure(.usage, "\(reason): add --yes where there is no terminal to ask on")
        }
        write(TerminalText.escape(question) + " [y/N] ", to: errors)
        guard ["y", "yes"].contains(readAnswer(atMost: 100)?.lowercased()) else {
            throw CommandFailure(.negative, "nothing was changed")
        }
    }

    /// Asks for a value on a terminal; nil at the end of input.
    ///
    /// `standard` is the default for an empty answer.
    func ask(_ question: String, standard: String?) -> String? {
        write(TerminalText.escape(question) + (standard.map { " [\($0)]" } ?? "") + ": ", to: errors)
        return readAnswer(atMost: 4_096)?.trimmingCharacters(in: CharacterSet(charactersIn: " \t\r"))
    }

    /// Reads one line byte by byte, leaving later input to the next reader; nil at the end of input.
    private func readAnswer(atMost limit: Int) -> String? {
        var line: [UInt8] = []
        var byte: UInt8 = 0
        while line.count < limit {
            let count = read(input.descriptor, &byte, 1)
            if count < 0, errno == EINTR { continue }
            guard count == 1 else { return line.isEmpty ? nil : String(decoding: line, as: UTF8.self) }
            guard byte != UInt8(ascii: "\n") else { break }
            line.append(byte)
        }
        return String(decoding: line, as: UTF8.self)
    }

    /// Asks before something that affects more than 100 rows.
    func confirmMany(_ count: Int, _ question: String, yes isConfirmed: Bool) throws(CommandFailure) {
        guard count > 100 else { return }
        try confirm(question, yes: isConfirmed, because: "this concerns \(Amount.count(count)), more than 100")
    }
}
