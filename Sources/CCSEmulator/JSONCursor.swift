/// A position in a JSON text, with readers for the few tokens of acks.
package struct JSONCursor {
    private let text: UnsafeBufferPointer<UInt8>
    private var position = 0

    /// Starts at the first token; the text must outlive the cursor.
    package init(_ text: UnsafeBufferPointer<UInt8>) {
        self.text = text
        skipSpace()
    }

    package var isAtEnd: Bool { position == text.count }

    package var peek: UInt8? { position < text.count ? text[position] : nil }

    /// Skips a punctuation character and the white space behind it, if it is next.
    package mutating func take(_ byte: UInt8) -> Bool {
        guard peek == byte else { return false }
        position += 1
        skipSpace()
        return true
    }

    /// Unescapes the string literal at the cursor; nil unless it is a valid RFC 8259 literal.
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

    /// Skips the value at the cursor without validating its content; false if the text ends inside it.
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
            guard let digit = Character(Unicode.Scalar(byte)).hexDigitValue else { return nil }
            value = value << 4 | UInt32(digit)
        }
        position += 4
        return value
    }

    /// Encodes as UTF-8, a lone surrogate as the three bytes of its number.
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
