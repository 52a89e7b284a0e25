package import Vocabulary

/// What a JSON value is, by its first byte.
package enum JSONKind: UInt8, Sendable {
    /// `{…}`
    case object
    /// `[…]`
    case array
    /// `"…"`
    case string
    /// A number.
    case number
    /// `true` or `false`
    case boolean
    /// `null`
    case null
}

/// What was met inside a value or a key, beyond its being valid JSON.
package struct JSONTraits: OptionSet, Sendable {
    /// The bits.
    package var rawValue: UInt8

    /// The set with these bits.
    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// A string holds an escape: its bytes are not its text.
    package static let escaped = JSONTraits(rawValue: 1)
    /// A string holds `\u0000`, which PostgreSQL's `text` and `jsonb` refuse.
    package static let null = JSONTraits(rawValue: 2)
    /// A string holds half a surrogate pair, which no Unicode text can hold.
    package static let loneSurrogate = JSONTraits(rawValue: 4)
    /// A number is outside of what `numeric`, and so `jsonb`, can hold.
    package static let numberOutOfRange = JSONTraits(rawValue: 8)
    /// Nested deeper than ``JSONScanner/maximumCastableDepth``.
    package static let tooDeep = JSONTraits(rawValue: 16)

    /// What `text` can't hold.
    package static let unstorable: JSONTraits = [.null, .loneSurrogate]
    /// What `jsonb` refuses.
    package static let uncastable: JSONTraits = [.null, .loneSurrogate, .numberOutOfRange, .tooDeep]
}

/// One member of the top-level object.
package struct JSONMember: Sendable, Equatable {
    /// The key's literal without its quotes.
    package var key: ByteSpan
    /// The value's literal, a string's quotes included.
    package var value: ByteSpan
    /// What the value is.
    package var kind: JSONKind
    /// What was met in the key.
    package var keyTraits: JSONTraits
    /// What was met in the value, at any depth.
    package var traits: JSONTraits

    /// A string value's literal without its quotes.
    ///
    /// - Precondition: The value is a string.
    package var body: ByteSpan { ByteSpan(start: Int(value.start) + 1, count: Int(value.count) - 2) }
}

/// Why a text is not JSON (RFC 8259).
package struct JSONSyntaxError: Error, Equatable {
    /// The kinds of fault.
    package enum Fault: UInt8, Sendable {
        /// The text ends inside a value, or before one.
        case unexpectedEnd
        /// A byte that can't stand here.
        case unexpectedByte
        /// A raw control character inside a string.
        case controlCharacter
        /// Not UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing past U+10FFFF).
        case invalidUTF8
        /// A backslash that begins no escape.
        case invalidEscape
        /// Not a number of JSON's grammar.
        case invalidNumber
        /// Something stands after the value.
        case trailingBytes
        /// A byte order mark, which RFC 8259 section 8.1 forbids to send.
        case byteOrderMark
        /// 2^31 bytes or more.
        case tooLong
    }

    /// What is wrong.
    package var fault: Fault
    /// The offset of the byte that shows it.
    package var offset: Int

    /// A fault at an offset.
    package init(_ fault: Fault, at offset: Int) {
        self.fault = fault
        self.offset = offset
    }
}
