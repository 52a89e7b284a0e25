/// Why an export failed.
package struct ExportError: Error, Sendable, CustomStringConvertible {
    package enum Kind: Sendable {
        /// The file exists, or can't be created.
        case refused
        case mismatch
        /// Writing failed, for example because the disk is full.
        case output
        /// The reader of the output has closed it, as `head` does.
        case readerGone
    }

    package var kind: Kind
    /// What failed and what to do about it.
    package var description: String

    init(_ kind: Kind, _ description: String) {
        self.kind = kind
        self.description = description
    }
}
