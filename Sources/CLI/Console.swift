import Foundation
import Glibc

/// The terminal: data goes to stdout, everything for people to stderr.
enum Console {
    /// Writes data.
    static func data(_ text: String) {
        write(text + "\n", to: STDOUT_FILENO)
    }

    /// Tells people something.
    static func message(_ text: String) {
        write(text + "\n", to: STDERR_FILENO)
    }

    /// Puts a text in the place of the line that the terminal's cursor is on.
    static func redraw(_ text: String) {
        write("\r\u{1B}[K" + text, to: STDERR_FILENO)
    }

    /// Asks a question that is answered with yes or no; nil where nobody can be asked.
    static func ask(_ question: String) -> Bool? {
        guard isatty(STDIN_FILENO) == 1, isatty(STDERR_FILENO) == 1 else { return nil }
        write(question + " [y/N] ", to: STDERR_FILENO)
        let answer = readLine()?.lowercased()
        return answer == "y" || answer == "yes"
    }

    /// Columns as wide as their widest cell, two spaces apart.
    static func table(_ rows: [[String]]) -> String {
        let columns = rows.map(\.count).max() ?? 0
        let widths = (0..<columns).map { column in rows.map { column < $0.count ? $0[column].count : 0 }.max() ?? 0 }
        return rows.map { row in
            row.enumerated().map { column, cell in
                column == row.count - 1 ? cell : cell + String(repeating: " ", count: widths[column] - cell.count + 2)
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
        data(String(decoding: try encoder.encode(value), as: UTF8.self))
    }
}
