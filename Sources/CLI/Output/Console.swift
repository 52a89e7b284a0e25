import Foundation
import Glibc
import Querying

/// The terminal: data goes to stdout, everything for people to stderr.
enum Console {
    /// Writes data.
    static func data(_ text: String) {
        write(text + "\n", to: STDOUT_FILENO)
    }

    /// Tells people something, made fit for a terminal line by line.
    static func message(_ text: String) {
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map { TerminalText.escape($0) }
        write(lines.joined(separator: "\n") + "\n", to: STDERR_FILENO)
    }

    /// Puts a text in the place of the line that the terminal's cursor is on.
    static func redraw(_ text: String) {
        write("\r\u{1B}[K" + TerminalText.escape(text), to: STDERR_FILENO)
    }

    /// Writes JSON: as it is, but on a terminal with escapes for what that may act on, which stands in strings only.
    static func data(json: Data) {
        let text = String(decoding: json, as: UTF8.self)
        data(Screen.isTerminal ? TerminalText.escape(json: text) : text)
    }

    /// Asks a question that is answered with yes or no; nil where nobody can be asked.
    static func ask(_ question: String) -> Bool? {
        guard isatty(STDIN_FILENO) == 1, isatty(STDERR_FILENO) == 1 else { return nil }
        write(TerminalText.escape(question) + " [y/N] ", to: STDERR_FILENO)
        let answer = readLine()?.lowercased()
        return answer == "y" || answer == "yes"
    }

    /// Columns as wide as their widest cell, two spaces apart; each cell is made fit for a terminal here.
    static func table(_ rows: [[String]]) -> String {
        let rows = rows.map { row in row.map { TerminalText.escape($0) } }
        let columns = rows.map(\.count).max() ?? 0
        let widths = (0..<columns).map { column in
            rows.map { column < $0.count ? TerminalText.width($0[column]) : 0 }.max() ?? 0
        }
        return rows.map { row in
            row.enumerated().map { column, cell in
                guard column < row.count - 1 else { return cell }
                return cell + String(repeating: " ", count: widths[column] - TerminalText.width(cell) + 2)
            }
            .joined()
        }
        .joined(separator: "\n")
    }

    private static func write(_ text: String, to descriptor: Int32) {
        Array(text.utf8).withUnsafeBytes { bytes in
            var rest = bytes[...]
            while !rest.isEmpty {
                let written = Glibc.write(descriptor, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
                if written > 0 {
                    rest = rest.dropFirst(written)
                } else if errno != EINTR {
                    return
                }
            }
        }
    }
}

extension Console {
    /// Prints a value as one line of JSON, its keys in snake case and sorted.
    static func json(_ value: some Encodable) throws {
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        data(json: try encoder.encode(value))
    }
}
