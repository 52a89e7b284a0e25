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
///
/// Computed and plain bits, so that the hot path has no lazy global and no unspecialised generic call.
package struct JSONTraits: OptionSet, Sendable {
    package var rawValue: UInt8

    @inlinable package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// A string has an escape: its bytes are not its text.
    @inlinable package static var escaped: JSONTraits { JSONTraits(rawValue: 1) }
    /// A string has `\u0000`, which PostgreSQL's `text` and `jsonb` refuse.
    @inlinable package static var null: JSONTraits { JSONTraits(rawValue: 2) }
    /// A string has half a surrogate pair, which no Unicode text can hold.
    @inlinable package static var loneSurrogate: JSONTraits { JSONTraits(rawValue: 4) }
    /// A number is outside the range of `numeric`, and so of `jsonb`.
    @inlinable package static var numberOutOfRange: JSONTraits { JSONTraits(rawValue: 8) }
    /// Nested deeper than ``JSONScanner/maximumCastableDepth``.
    @inlinable package static var tooDeep: JSONTraits { JSONTraits(rawValue: 16) }

    /// Whether the bytes are not the text.
    @inlinable package var isEscaped: Bool {
        @inline(__always) get { rawValue & 1 != 0 }
    }
    /// Whether `text` can hold it.
    @inlinable package var isStorable: Bool {
        @inline(__always) get { rawValue & 6 == 0 }
    }
    /// Whether `jsonb` accepts it.
    @inlinable package var isCastable: Bool {
        @inline(__always) get { rawValue & 30 == 0 }
    }
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
    @inlinable package var body: ByteSpan {
        @inline(__always) get { ByteSpan(start: Int(value.start) + 1, count: Int(value.count) - 2) }
    }

    @inlinable package var isString: Bool {
        @inline(__always)
        get {
            if case .string = kind { true } else { false }
        }
    }
}

/// Why a text is not JSON (RFC 8259).
package struct JSONSyntaxError: Error, Equatable {
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
        case invalidNumber
        case trailingBytes
        /// A byte order mark, which RFC 8259 section 8.1 forbids to send.
        case byteOrderMark
        /// 2^31 bytes or more.
        case tooLong
    }

    package var fault: Fault
    /// The offset of the byte that shows it.
    package var offset: Int

    package init(_ fault: Fault, at offset: Int) {
        self.fault = fault
        self.offset = offset
    }
}
