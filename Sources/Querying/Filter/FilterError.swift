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
