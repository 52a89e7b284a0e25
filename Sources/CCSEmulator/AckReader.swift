/// Reads the JSON of an ack, strictly and independently of the worker's codec.
///
/// An ack is a JSON object of exactly `to`, `message_id` and `message_type`, all strings, the last one `ack`
/// (protocol.md §1.7). Everything else is malformed: the hosted service took such texts for downstream messages.
package struct AckReader {
    /// What a text was.
    package enum Reading: Equatable {
        /// An ack; ``AckReader/messageID`` and ``AckReader/to`` hold its fields.
        case ack
        /// Not an ack, and why.
        case malformed(Problem)
    }

    /// Why a text is no ack.
    package enum Problem: String, Sendable, CaseIterable {
        /// Not an object of string members and nothing else.
        case notAnObjectOfStrings = "not a JSON object of string members"
        /// A string that JSON does not allow.
        case badString = "a string with a bad escape or a raw control character"
        /// Another member than the three.
        case unknownMember = "a member other than to, message_id and message_type"
        /// The same member twice.
        case duplicateMember = "a member twice"
        /// One of the three is absent.
        case missingMember = "to, message_id or message_type is missing"
        /// Another `message_type`.
        case otherType = "message_type is not ack"
    }

    /// The unescaped fields, one after the other; lone surrogates stand as three bytes each.
    private var bytes: [UInt8] = []
    private var messageIDRange = 0..<0
    private var toRange = 0..<0

    package init() {}

    /// The id of the last ack, unescaped, and its `to`.
    package func withFields<R>(
        _ body: (_ messageID: UnsafeBufferPointer<UInt8>, _ to: UnsafeBufferPointer<UInt8>) -> R
    ) -> R {
        bytes.withUnsafeBufferPointer {
            body(UnsafeBufferPointer(rebasing: $0[messageIDRange]), UnsafeBufferPointer(rebasing: $0[toRange]))
        }
    }

    /// Reads one text.
    package mutating func read(_ text: UnsafeBufferPointer<UInt8>) -> Reading {
        bytes.removeAll(keepingCapacity: true)
        var cursor = JSONCursor(text)
        var messageID: Range<Int>?
        var to: Range<Int>?
        var type: Range<Int>?
        guard cursor.take(UInt8(ascii: "{")) else { return .malformed(.notAnObjectOfStrings) }
        repeat {
            guard cursor.peek == UInt8(ascii: "\"") else { return .malformed(.notAnObjectOfStrings) }
            guard let name = cursor.string(into: &bytes) else { return .malformed(.badString) }
            guard cursor.take(UInt8(ascii: ":")), cursor.peek == UInt8(ascii: "\"") else {
                return .malformed(.notAnObjectOfStrings)
            }
            guard let value = cursor.string(into: &bytes) else { return .malformed(.badString) }
            let fresh: Bool
            if equals(name, "to") {
                fresh = to == nil
                to = value
            } else if equals(name, "message_id") {
                fresh = messageID == nil
                messageID = value
            } else if equals(name, "message_type") {
                fresh = type == nil
                type = value
            } else {
                return .malformed(.unknownMember)
            }
            guard fresh else { return .malformed(.duplicateMember) }
        } while cursor.take(UInt8(ascii: ","))
        guard cursor.take(UInt8(ascii: "}")), cursor.isAtEnd else { return .malformed(.notAnObjectOfStrings) }
        guard let messageID, let to, let type else { return .malformed(.missingMember) }
        guard equals(type, "ack") else { return .malformed(.otherType) }
        messageIDRange = messageID
        toRange = to
        return .ack
    }

    private func equals(_ range: Range<Int>, _ text: StaticString) -> Bool {
        bytes.withUnsafeBufferPointer { storage in
            text.withUTF8Buffer { storage[range].elementsEqual($0) }
        }
    }
}

/// A position in a JSON text, and the few tokens that acks are made of.
package struct JSONCursor {
    private let text: UnsafeBufferPointer<UInt8>
    private var position = 0

    /// Starts at the first token; the text must outlive the cursor.
    package init(_ text: UnsafeBufferPointer<UInt8>) {
        self.text = text
        skipSpace()
    }

    /// Whether nothing but white space was left.
    package var isAtEnd: Bool { position == text.count }

    /// The next token's first byte.
    package var peek: UInt8? { position < text.count ? text[position] : nil }

    /// Steps over a punctuation character and the white space behind it, if it stands here.
    package mutating func take(_ byte: UInt8) -> Bool {
        guard peek == byte else { return false }
        position += 1
        skipSpace()
        return true
    }

    /// Unescapes the string literal that stands here.
    ///
    /// - Returns: Where in `output` its bytes stand, or nil where it is no literal that RFC 8259 allows.
    package mutating func string(into output: inout [UInt8]) -> Range<Int>? {
        guard peek == UInt8(ascii: "\"") else { return nil }
        position += 1
        let start = output.count
        while position < text.count {
            var run = position
            while run < text.count, text[run] >= 0x20, text[run] != UInt8(ascii: "\""), text[run] != UInt8(ascii: "\\")
            {
                run += 1
            }
            output.append(contentsOf: text[position..<run])
            position = run
            guard position < text.count else { return nil }
            switch text[position] {
            case UInt8(ascii: "\""):
                position += 1
                skipSpace()
                return start..<output.count
            case UInt8(ascii: "\\"):
                position += 1
                guard escape(into: &output) else { return nil }
            default:
                return nil
            }
        }
        return nil
    }

    /// Steps over the value that stands here, and the white space behind it, without judging what it holds.
    ///
    /// - Returns: False where the text ends inside of it.
    package mutating func skipValue() -> Bool {
        var depth = 0
        var isInString = false
        while position < text.count {
            let byte = text[position]
            if isInString {
                if byte == UInt8(ascii: "\\") { position += 1 }
                if byte == UInt8(ascii: "\"") { isInString = false }
            } else {
                switch byte {
                case UInt8(ascii: "\""): isInString = true
                case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
                case UInt8(ascii: "}"), UInt8(ascii: "]"):
                    if depth == 0 { return true }
                    depth -= 1
                case UInt8(ascii: ",") where depth == 0: return true
                default: break
                }
            }
            position += 1
        }
        return false
    }

    private mutating func escape(into output: inout [UInt8]) -> Bool {
        guard let kind = peek else { return false }
        position += 1
        switch kind {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): output.append(kind)
        case UInt8(ascii: "b"): output.append(0x08)
        case UInt8(ascii: "f"): output.append(0x0C)
        case UInt8(ascii: "n"): output.append(0x0A)
        case UInt8(ascii: "r"): output.append(0x0D)
        case UInt8(ascii: "t"): output.append(0x09)
        case UInt8(ascii: "u"):
            guard var scalar = hexadecimal() else { return false }
            if (0xD800..<0xDC00).contains(scalar), let low = lowSurrogate() {
                scalar = 0x10000 + ((scalar - 0xD800) << 10) + (low - 0xDC00)
            }
            Self.encode(scalar, into: &output)
        default: return false
        }
        return true
    }

    private mutating func lowSurrogate() -> UInt32? {
        let before = position
        if position + 1 < text.count, text[position] == UInt8(ascii: "\\"), text[position + 1] == UInt8(ascii: "u") {
            position += 2
            if let low = hexadecimal(), (0xDC00..<0xE000).contains(low) { return low }
        }
        position = before
        return nil
    }

    private mutating func hexadecimal() -> UInt32? {
        guard position + 4 <= text.count else { return nil }
        var value: UInt32 = 0
        for byte in text[position..<position + 4] {
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): value = value << 4 | UInt32(byte - UInt8(ascii: "0"))
            case UInt8(ascii: "a")...UInt8(ascii: "f"): value = value << 4 | UInt32(byte - UInt8(ascii: "a") + 10)
            case UInt8(ascii: "A")...UInt8(ascii: "F"): value = value << 4 | UInt32(byte - UInt8(ascii: "A") + 10)
            default: return nil
            }
        }
        position += 4
        return value
    }

    /// UTF-8, with a lone surrogate as the three bytes its number would give.
    private static func encode(_ scalar: UInt32, into output: inout [UInt8]) {
        func tail(_ shift: UInt32) -> UInt8 { UInt8(0x80 | (scalar >> shift) & 0x3F) }
        switch scalar {
        case ..<0x80: output.append(UInt8(scalar))
        case ..<0x800: output += [UInt8(0xC0 | scalar >> 6), tail(0)]
        case ..<0x10000: output += [UInt8(0xE0 | scalar >> 12), tail(6), tail(0)]
        default: output += [UInt8(0xF0 | scalar >> 18), tail(12), tail(6), tail(0)]
        }
    }

    private mutating func skipSpace() {
        while position < text.count {
            switch text[position] {
            case 0x20, 0x09, 0x0A, 0x0D: position += 1
            default: return
            }
        }
    }
}
