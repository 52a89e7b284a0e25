import Vocabulary

/// Indents JSON for people; names, strings and numbers stay verbatim.
package enum JSONIndent {
    /// The lines, two spaces per level, safe for a terminal.
    ///
    /// `json` must be valid.
    package static func lines(_ json: [UInt8]) -> [String] { JSONLayout.lines(json).map { TerminalText.escape($0) } }
}
