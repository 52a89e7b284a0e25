/// A mistake in a filter that a person wrote, and its position.
package struct FilterError: Error, Sendable, Equatable, CustomStringConvertible {
    package var message: String
    package var text: String
    /// The position of the mistake: the number of characters before it.
    package var position: Int

    package init(_ message: String, in text: String, at position: Int) {
        self.message = message
        self.text = text
        self.position = position
    }

    /// The message, and the text with a mark under the position.
    package var description: String {
        let shown = text.map { $0.isASCII && $0 >= " " && $0 != "\u{7F}" || !$0.isASCII && !$0.isNewline ? $0 : "?" }
        return """
            \(message) (character \(position + 1))
              \(String(shown))
              \(String(repeating: " ", count: min(position, shown.count)))^
            """
    }
}

/// Limits on what one request or command line may select by.
///
/// Each condition is planned before the statement's time limit counts much: their number bounds what that costs.
package enum FilterBounds {
    /// The longest value, in bytes of UTF-8; a message id takes 4,096.
    static let bytes = 4_096
    /// The most values of one repeatable name, and of all repeatable names together.
    static let values = 100

    /// Describes a value that is too long, or too many values; nil if all are within bounds.
    package static func excess(in given: [String: [String]]) -> String? {
        let given = given.sorted { $0.key < $1.key }
        if let (name, _) = given.first(where: { $0.value.contains { $0.utf8.count > bytes } }) {
            return "'\(name)' is longer than \(bytes) bytes"
        }
        let repeated = given.filter { $0.value.count > 1 }
        if let (name, texts) = repeated.first(where: { $0.value.count > values }) {
            return "'\(name)' is given \(texts.count) times; at most \(values) are taken"
        }
        let sum = repeated.map(\.value.count).reduce(0, +)
        guard sum > values else { return nil }
        let names = repeated.map { "'\($0.key)'" }.joined(separator: " and ")
        return "\(names) have \(sum) values; together at most \(values) are taken"
    }
}
