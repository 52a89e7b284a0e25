import Vocabulary

/// Finds the values in a JSON text that may be registration tokens.
///
/// Unlike ``TokenMask``, which knows a text to be valid, it trusts nothing: a text that is not JSON (RFC 8259) has no
/// answer.
enum JSONMask {
    /// Members that hold tokens at any depth.
    private static let names: Set<[UInt8]> = Set(
        ["from", TokenMask.member, "registration_id", "registration_ids", "registration_token"].map { Array($0.utf8) }
    )
    /// The member that holds a token at the top of the CCS envelope.
    private static let envelopeName = Array("to".utf8)
    /// How deep values may nest; no message nests deeper.
    private static let depthLimit = 512

    /// The ranges of the values to be masked, in order; nil if the text is not JSON.
    static func ranges(in text: [UInt8]) -> [Range<Int>]? {
        text.withUnsafeBufferPointer { text in
            var scanner = JSONScanner()
            guard (try? scanner.scan(text)) != nil else { return nil }
            var tokens = JSONTokens(text)
            var found: [Range<Int>] = []
            var (depth, isMasked) = (0, false)
            while let token = tokens.next() {
                switch token.kind {
                case .name:
                    let name = JSONLiteral.text(of: tokens.body(of: token))
                    if TokenText.mayHold(name) { found.append(token.range) }
                    isMasked = names.contains(name) || (depth == 1 && name == envelopeName)
                    continue
                case .colon: continue
                case .object, .array:
                    depth += 1
                    guard depth <= depthLimit else { return nil }
                    if isMasked {
                        tokens.finish()
                        depth -= 1
                        found.append(token.range.lowerBound..<tokens.at)
                    }
                case .end: depth -= 1
                case .string:
                    if isMasked || TokenText.mayHold(JSONLiteral.text(of: tokens.body(of: token))) {
                        found.append(token.range)
                    }
                // All but null.
                case .other where isMasked && text[token.range.lowerBound] != UInt8(ascii: "n"):
                    found.append(token.range)
                case .comma, .other: break
                }
                isMasked = false
            }
            return found
        }
    }
}
