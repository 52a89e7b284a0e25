/// The tag, reference, comment or instruction that a parser is in the middle of, where it is a long one.
///
/// libxml2 reads such a token again from its start whenever it is called, as soon as a start tag has a `>` inside quotes
/// and a comment or instruction a `>` that does not end it, and always while a reference has no `;`. A peer that sends
/// 256 KB of one byte by byte would cost 18 s of processor time. While the token cannot end, its bytes are therefore
/// gathered to a quarter of its length, so that reading it stays linear. No stanza waits for that: a stanza that is
/// well-formed cannot end before its token does.
struct UnfinishedToken {
    /// Shorter tokens go to the parser as they come.
    static let shortBytes = 1024

    private enum Kind {
        case startTag
        case reference
        case comment
        case instruction
    }

    private let kind: Kind
    /// The quotation mark of the attribute value that is open, or 0.
    private var quote: UInt8 = 0
    /// How much of `--` or `?` stands directly before the next byte.
    private var matched = 0

    /// Looks at what the parser has been given and has not taken.
    ///
    /// Nil where it is short, may have ended, or is of a kind that is read once.
    init?(_ pending: UnsafeRawBufferPointer) {
        guard pending.count >= Self.shortBytes else { return nil }
        let skipped: Int
        if pending.starts(with: "<!--".utf8) {
            (kind, skipped) = (.comment, 4)
        } else if pending.starts(with: "<?".utf8) {
            (kind, skipped) = (.instruction, 2)
        } else if pending[0] == UInt8(ascii: "&") {
            (kind, skipped) = (.reference, 1)
        } else if pending[0] == UInt8(ascii: "<"), pending[1] != UInt8(ascii: "/"), pending[1] != UInt8(ascii: "!") {
            (kind, skipped) = (.startTag, 1)
        } else {
            return nil
        }
        if mayEnd(in: UnsafeRawBufferPointer(rebasing: pending[skipped...])) { return nil }
    }

    /// Whether the token may end within the bytes that follow it.
    mutating func mayEnd(in bytes: UnsafeRawBufferPointer) -> Bool {
        switch kind {
        case .startTag: tagEnds(in: bytes)
        case .reference: bytes.contains(UInt8(ascii: ";"))
        case .comment: ends(in: bytes, after: 2, of: UInt8(ascii: "-"))
        case .instruction: ends(in: bytes, after: 1, of: UInt8(ascii: "?"))
        }
    }

    private mutating func tagEnds(in bytes: UnsafeRawBufferPointer) -> Bool {
        for byte in bytes {
            if quote != 0 {
                if byte == quote { quote = 0 }
            } else if byte == UInt8(ascii: "'") || byte == UInt8(ascii: "\"") {
                quote = byte
            } else if byte == UInt8(ascii: ">") {
                return true
            }
        }
        return false
    }

    private mutating func ends(in bytes: UnsafeRawBufferPointer, after count: Int, of mark: UInt8) -> Bool {
        for byte in bytes {
            if byte == UInt8(ascii: ">"), matched == count { return true }
            matched = byte == mark ? min(matched + 1, count) : 0
        }
        return false
    }
}
