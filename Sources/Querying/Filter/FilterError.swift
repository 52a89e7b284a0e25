/// What is wrong with a filter that a person wrote, and where.
package struct FilterError: Error, Sendable, Equatable, CustomStringConvertible {
    /// What is wrong and how to mend it.
    package var message: String
    /// The text as it was written.
    package var text: String
    /// The place of the mistake: characters before it.
    package var position: Int

    package init(_ message: String, in text: String, at position: Int) {
        self.message = message
        self.text = text
        self.position = position
    }

    /// The message, and the text with a mark under the place.
    package var description: String {
        let shown = text.map { $0.isASCII && $0 >= " " && $0 != "\u{7F}" || !$0.isASCII && !$0.isNewline ? $0 : "?" }
        return """
            \(message) (character \(position + 1))
              \(String(shown))
              \(String(repeating: " ", count: min(position, shown.count)))^
            """
    }
}
