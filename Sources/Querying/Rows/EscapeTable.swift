/// Which characters of a text are written as escapes, found byte by byte.
struct EscapeTable: Sendable {
    /// How a character is written that may not stand as it is.
    enum Style {
        /// In a JSON string: the two-character forms, else `\u00XX`.
        case string
        /// In JSON that is whole already: line ends and tabs, which stand between tokens only, become spaces; what else a
        /// terminal may act on, which stands in strings only, becomes `\u00XX`.
        case json
    }

    private let style: Style
    private let isForTerminal: Bool
    /// By byte: whether a character that may need an escape begins with it.
    private let suspects: [Bool]

    static let string = EscapeTable(.string, isForTerminal: false)
    static let stringForTerminal = EscapeTable(.string, isForTerminal: true)
    static let jsonForTerminal = EscapeTable(.json, isForTerminal: true)

    private init(_ style: Style, isForTerminal: Bool) {
        self.style = style
        self.isForTerminal = isForTerminal
        var suspects = [Bool](repeating: false, count: 256)
        // C0 and DEL; C2 leads to C1, E2 to the line separators.
        for byte in [0x7F, 0xC2, 0xE2] { suspects[byte] = true }
        for byte in 0..<0x20 { suspects[byte] = true }
        if style == .string { for byte in [0x22, 0x5C] { suspects[byte] = true } }
        // The leads of characters that change the direction of text, or are not seen.
        if isForTerminal { for byte in [0xD8, 0xE1, 0xEF, 0xF3] { suspects[byte] = true } }
        self.suspects = suspects
    }

    /// Appends a text with its escapes; what needs none is copied in runs.
    func append(_ text: UnsafeRawBufferPointer, to bytes: inout [UInt8]) {
        suspects.withUnsafeBufferPointer { suspects in
            var start = 0
            var index = 0
            while index < text.count {
                guard suspects[Int(text[index])] else {
                    index += 1
                    continue
                }
                let (scalar, length) = EscapeTable.decode(text, at: index)
                if needsEscape(scalar) {
                    bytes.append(contentsOf: text[start..<index])
                    appendEscape(of: scalar, to: &bytes)
                    start = index + length
                }
                index += length
            }
            bytes.append(contentsOf: text[start...])
        }
    }

    private func needsEscape(_ scalar: UInt32) -> Bool {
        switch scalar {
        case 0x00...0x1F, 0x7F...0x9F, 0x2028, 0x2029: true
        case 0x22, 0x5C: style == .string
        default: isForTerminal && EscapeTable.isInvisible(scalar)
        }
    }

    /// Characters that change the direction of what follows or take no place (Unicode's bidirectional controls, zero
    /// width characters, byte order mark, tags).
    static func isInvisible(_ scalar: UInt32) -> Bool {
        switch scalar {
        case 0xAD, 0x61C, 0x180E, 0x200B...0x200F, 0x202A...0x202E, 0x2060...0x206F, 0xFEFF, 0xFFF9...0xFFFB,
            0xE0000...0xE0FFF:
            true
        default: false
        }
    }

    private func appendEscape(of scalar: UInt32, to bytes: inout [UInt8]) {
        switch scalar {
        case 0x09 where style == .json, 0x0A where style == .json, 0x0D where style == .json: bytes.append(0x20)
        case 0x22, 0x5C: bytes += [0x5C, UInt8(scalar)]
        case 0x0A: bytes += "\\n".utf8
        case 0x0D: bytes += "\\r".utf8
        case 0x09: bytes += "\\t".utf8
        case 0x10000...:
            for unit in UTF16.encode(Unicode.Scalar(scalar) ?? "\u{FFFD}") ?? UTF16.encodedReplacementCharacter {
                EscapeTable.appendUnit(UInt32(unit), to: &bytes)
            }
        default: EscapeTable.appendUnit(scalar, to: &bytes)
        }
    }

    private static func appendUnit(_ unit: UInt32, to bytes: inout [UInt8]) {
        let digits = String(unit, radix: 16)
        bytes += "\\u".utf8
        bytes.append(contentsOf: repeatElement(UInt8(ascii: "0"), count: 4 - digits.utf8.count))
        bytes += digits.utf8
    }

    /// The character at a place of a text that PostgreSQL has checked to be UTF-8; never reads past the end.
    private static func decode(_ text: UnsafeRawBufferPointer, at index: Int) -> (scalar: UInt32, length: Int) {
        let lead = text[index]
        let length = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4
        guard length > 1, index + length <= text.count else { return (UInt32(lead), 1) }
        var scalar = UInt32(lead) & (0x7F >> UInt32(length))
        for next in text[(index + 1)..<(index + length)] { scalar = scalar << 6 | UInt32(next & 0x3F) }
        return (scalar, length)
    }
}
