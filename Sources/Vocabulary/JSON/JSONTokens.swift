/// One token of a JSON text, or one whole value.
package struct JSONToken {
    package enum Kind: Sendable {
        /// `{`, or a whole object.
        case object
        /// `[`, or a whole array.
        case array
        /// `}` or `]`
        case end
        /// `,`
        case comma
        /// `:`
        case colon
        /// A string followed by a colon.
        case name
        /// Any other string.
        case string
        /// A number, a word, or text that is not JSON, up to a space, a quote or punctuation.
        case other
    }

    package var kind: Kind
    /// Its range, including a string's quotes.
    package var range: Range<Int>
    /// Whether a string follows JSON's grammar; true for all other kinds.
    package var isValid = true
}

/// Walks over the tokens of a JSON text, to show it, mask it, or find one of its members.
///
/// It neither allocates nor recurses, and passes on what is not JSON: validation is up to ``JSONScanner``.
package struct JSONTokens {
    private let text: UnsafeBufferPointer<UInt8>
    package private(set) var at = 0

    /// The tokens of a text that outlives this value.
    package init(_ text: UnsafeBufferPointer<UInt8>) { self.text = text }

    /// The next token; nil at the end.
    package mutating func next() -> JSONToken? {
        guard let base = text.baseAddress else { return nil }
        var reader = JSONReader(base: base, end: text.count, at: at)
        defer { at = reader.at }
        reader.skipWhitespace()
        let start = reader.at
        guard start < reader.end else { return nil }
        reader.at += 1
        func token(_ kind: JSONToken.Kind, isValid: Bool = true) -> JSONToken {
            JSONToken(kind: kind, range: start..<reader.at, isValid: isValid)
        }
        switch base[start] {
        case UInt8(ascii: "{"): return token(.object)
        case UInt8(ascii: "["): return token(.array)
        case UInt8(ascii: "}"), UInt8(ascii: "]"): return token(.end)
        case UInt8(ascii: ","): return token(.comma)
        case UInt8(ascii: ":"): return token(.colon)
        case UInt8(ascii: "\""):
            let isValid = reader.skipString()
            var ahead = reader
            ahead.skipWhitespace()
            let isName = ahead.at < ahead.end && base[ahead.at] == UInt8(ascii: ":")
            return token(isName ? .name : .string, isValid: isValid)
        default:
            while reader.at < reader.end, !JSONTokens.endsWord(base[reader.at]) { reader.at += 1 }
            return token(.other)
        }
    }

    private static func endsWord(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x20, 0x09, 0x0A, 0x0D, UInt8(ascii: "{"), UInt8(ascii: "}"), UInt8(ascii: "["), UInt8(ascii: "]"),
            UInt8(ascii: ","), UInt8(ascii: ":"), UInt8(ascii: "\""):
            true
        default: false
        }
    }

    /// The next whole value; nil if none follows.
    package mutating func nextValue() -> JSONToken? {
        var ahead = self
        guard let first = ahead.next() else { return nil }
        switch first.kind {
        case .end, .comma, .colon: return nil
        case .name, .string, .other: break
        case .object, .array: ahead.finish()
        }
        self = ahead
        return JSONToken(kind: first.kind, range: first.range.lowerBound..<at, isValid: first.isValid)
    }

    /// Moves past the container that was opened last.
    package mutating func finish() {
        var depth = 1
        while depth > 0, let token = next() {
            switch token.kind {
            case .object, .array: depth += 1
            case .end: depth -= 1
            default: break
            }
        }
    }

    /// The name of the next member of the object that was opened last, before its value; nil after the last member.
    package mutating func nextName() -> JSONToken? {
        var token = next()
        if token?.kind == .comma { token = next() }
        guard let token, token.kind == .name else { return nil }
        _ = next()
        return token
    }

    /// A token as written.
    package func text(of token: JSONToken) -> UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(rebasing: text[token.range])
    }

    /// A string's body as written, without its quotes.
    package func body(of token: JSONToken) -> UnsafeBufferPointer<UInt8> {
        let range = token.range
        let isClosed = range.count > 1 && text[range.upperBound - 1] == UInt8(ascii: "\"")
        return UnsafeBufferPointer(rebasing: text[range.lowerBound + 1..<range.upperBound - (isClosed ? 1 : 0)])
    }
}

extension JSONReader {
    /// Reads the rest of a string up to its closing quote or the end; returns whether it is valid.
    fileprivate mutating func skipString() -> Bool {
        do throws(JSONSyntaxError) {
            try readString()
            return true
        } catch {
            while at < end, base[at] != UInt8(ascii: "\"") { at += base[at] == UInt8(ascii: "\\") ? 2 : 1 }
            at = min(at + 1, end)
            return false
        }
    }
}
