extension [UInt8] {
    /// Appends a JSON string literal with its quotes (RFC 8259 §7).
    ///
    /// Escaped are the quote, the backslash and every control character (C0, DEL, C1), and with them U+2028 and U+2029,
    /// which some readers take for a line's end: whatever the text holds, the literal stays on one line.
    package mutating func append(jsonString text: String) {
        var text = text
        append(UInt8(ascii: "\""))
        text.withUTF8 { utf8 in
            // Everything from `start` to `index` stands as it is.
            var start = 0
            var index = 0
            while index < utf8.count {
                let (scalar, length) = Self.escaped(utf8, at: index)
                if length > 0 {
                    append(contentsOf: utf8[start..<index])
                    append(escaping: scalar)
                    start = index + length
                }
                index += Swift.max(length, 1)
            }
            append(contentsOf: utf8[start...])
        }
        append(UInt8(ascii: "\""))
    }

    /// The character at `index` and its length in bytes, where it has to be escaped; else the length is 0.
    private static func escaped(_ utf8: UnsafeBufferPointer<UInt8>, at index: Int) -> (scalar: UInt16, length: Int) {
        let byte = utf8[index]
        switch byte {
        case 0x20, 0x21, 0x23...0x5B, 0x5D...0x7E: return (0, 0)
        case 0...0x7F: return (UInt16(byte), 1)
        case 0xC2 where utf8[index + 1] < 0xA0: return (UInt16(utf8[index + 1]), 2)
        case 0xE2 where utf8[index + 1] == 0x80 && utf8[index + 2] & 0xFE == 0xA8:
            return (0x2000 | UInt16(utf8[index + 2] & 0x3F), 3)
        default: return (0, 0)
        }
    }

    private mutating func append(escaping scalar: UInt16) {
        append(UInt8(ascii: "\\"))
        switch scalar {
        case 0x22, 0x5C: append(UInt8(scalar))
        case 0x0A: append(UInt8(ascii: "n"))
        case 0x0D: append(UInt8(ascii: "r"))
        case 0x09: append(UInt8(ascii: "t"))
        default:
            append(UInt8(ascii: "u"))
            for shift in [12, 8, 4, 0] as [UInt16] {
                let digit = UInt8(scalar >> shift & 15)
                append(digit < 10 ? digit + 48 : digit + 87)
            }
        }
    }
}
