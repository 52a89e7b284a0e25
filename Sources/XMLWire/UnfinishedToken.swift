/// A long unfinished tag, reference, section, comment or instruction.
///
/// libxml2 rescans such a token at every call: 256 KB of one, sent byte by byte, would cost 30 s of processor time.
/// While the token cannot end, its bytes are therefore held back up to a quarter of its length, so that reading it stays
/// linear. No stanza is delayed: a well-formed one cannot end before its token does. A token that seems to have ended
/// here while the parser still waits is not well-formed, and held back likewise until libxml2 reports it.
struct UnfinishedToken {
    /// Shorter tokens go to the parser directly.
    static let shortBytes = 1024

    private enum Kind { case startTag, endTag, reference, section, comment, instruction }

    private let kind: Kind
    /// The quotation mark of the open attribute value, or 0.
    private var quote: UInt8 = 0
    /// How much of `--`, `?` or `]]` directly precedes the next byte.
    private var matched = 0
    /// Whether the bytes that the parser has seen contain the token's end.
    private var isOverdue = false
    /// The attribute values so far in a start tag, including namespace names.
    private(set) var values = 0

    /// Examines the bytes that the parser has not consumed; nil for a short token, or one of a kind that is read once.
    init?(_ pending: UnsafeRawBufferPointer, isSection: Bool = false) {
        guard pending.count >= Self.shortBytes else { return nil }
        let skipped: Int
        if isSection {
            (kind, skipped) = (.section, 0)
        } else if pending.starts(with: "<!--".utf8) {
            (kind, skipped) = (.comment, 4)
        } else if pending.starts(with: "<?".utf8) {
            (kind, skipped) = (.instruction, 2)
        } else if pending[0] == UInt8(ascii: "&") {
            (kind, skipped) = (.reference, 1)
        } else if pending.starts(with: "</".utf8) {
            (kind, skipped) = (.endTag, 2)
        } else if pending[0] == UInt8(ascii: "<"), pending[1] != UInt8(ascii: "!") {
            (kind, skipped) = (.startTag, 1)
        } else {
            return nil
        }
        isOverdue = mayEnd(in: UnsafeRawBufferPointer(rebasing: pending[skipped...]))
    }

    /// Whether the token may end within the following bytes.
    mutating func mayEnd(in bytes: UnsafeRawBufferPointer) -> Bool {
        guard !isOverdue else { return false }
        return switch kind {
        case .startTag, .endTag: tagEnds(in: bytes)
        case .reference: bytes.contains(UInt8(ascii: ";"))
        case .section: ends(in: bytes, after: 2, of: UInt8(ascii: "]"))
        case .comment: ends(in: bytes, after: 2, of: UInt8(ascii: "-"))
        case .instruction: ends(in: bytes, after: 1, of: UInt8(ascii: "?"))
        }
    }

    private mutating func tagEnds(in bytes: UnsafeRawBufferPointer) -> Bool {
        for byte in bytes {
            if quote != 0 {
                if byte == quote {
                    quote = 0
                    values += 1
                }
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
