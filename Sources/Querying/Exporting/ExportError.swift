/// Why an export can't be written.
package struct ExportError: Error, Sendable, CustomStringConvertible {
    /// What kind of failure.
    package enum Kind: Sendable {
        /// There is a file already, or one that can't be made.
        case refused
        /// The file is not what this export would have written.
        case mismatch
        /// The system could not write: disk full, for example.
        case output
        /// Whoever read the output has gone, as `head` does.
        case readerGone
    }

    /// What kind of failure.
    package var kind: Kind
    /// What failed and what to do about it.
    package var description: String

    init(_ kind: Kind, _ description: String) {
        self.kind = kind
        self.description = description
    }
}
