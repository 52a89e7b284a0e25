package import Vocabulary

/// The kind of a JSON value, by its first byte.
package enum JSONKind: UInt8, Sendable {
    case object
    case array
    case string
    case number
    case boolean
    case null
}

/// What was found inside a value or a key, beyond its being valid JSON.
package struct JSONTraits: OptionSet, Sendable {
    package var rawValue: UInt8

    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// A string has an escape: its bytes are not its text.
    package static let escaped = JSONTraits(rawValue: 1)
    /// A string has `\u0000`, which PostgreSQL's `text` and `jsonb` refuse.
    package static let null = JSONTraits(rawValue: 2)
    /// A string has half a surrogate pair, which no Unicode text can hold.
    package static let loneSurrogate = JSONTraits(rawValue: 4)
    /// A number is outside the range of `numeric`, and so of `jsonb`.
    package static let numberOutOfRange = JSONTraits(rawValue: 8)
    /// Nested deeper than ``JSONScanner/maximumCastableDepth``.
    package static let tooDeep = JSONTraits(rawValue: 16)

    /// Traits that `text` can't hold.
    package static let unstorable: JSONTraits = [.null, .loneSurrogate]
    /// Traits that `jsonb` refuses.
    package static let uncastable: JSONTraits = [.null, .loneSurrogate, .numberOutOfRange, .tooDeep]
}

package struct JSONMember: Sendable, Equatable {
    /// The key's literal without its quotes.
    package var key: ByteSpan
    /// The value's literal, a string's quotes included.
    package var value: ByteSpan
    package var kind: JSONKind
    /// The traits found in the key.
    package var keyTraits: JSONTraits
    /// The traits found in the value, at any depth.
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
        /// A byte that is not allowed here.
        case unexpectedByte
        /// A raw control character inside a string.
        case controlCharacter
        /// Not UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing past U+10FFFF).
        case invalidUTF8
        /// A backslash that begins no escape.
        case invalidEscape
        /// Not a number in JSON's grammar.
        case invalidNumber
        /// Something follows the value.
        case trailingBytes
        /// A byte order mark, which RFC 8259 section 8.1 forbids to send.
        case byteOrderMark
        /// 2^31 bytes or more.
        case tooLong
    }

    /// The kind of fault.
    package var fault: Fault
    /// The offset of the byte that shows it.
    package var offset: Int

    /// A fault at an offset.
    package init(_ fault: Fault, at offset: Int) {
        self.fault = fault
        self.offset = offset
    }
}
