import Foundation

/// Values as JSON on stdout.
enum JSONOutput {
    /// Prints a value as one line, its keys in snake case and sorted.
    static func print(_ value: some Encodable) throws {
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        Console.data(String(decoding: try encoder.encode(value), as: UTF8.self))
    }
}
