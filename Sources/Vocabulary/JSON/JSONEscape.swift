/// Which characters of a JSON text are escaped, found byte by byte.
///
/// A literal stays on one line: quote, backslash, control characters (C0, DEL, C1), U+2028 and U+2029 are escaped.
package struct JSONEscape: Sendable {
    private enum Style {
        /// In a string: the two-character escapes, else `\u00XX`.
        case string
        /// In complete JSON: line ends and tabs, which stand between tokens only, become spaces; other characters that
        /// a terminal may act on, which stand in strings only, become `\u00XX`.
        case json
    }

    private let style: Style
    let isForTerminal: Bool
    /// By byte: whether it begins a character that may need an escape.
    private let suspects: [Bool]

    /// For the inside of a string literal.
    package static let string = JSONEscape(.string, isForTerminal: false)
    /// Also escapes invisible characters and those that change the text's direction.
    package static let stringForTerminal = JSONEscape(.string, isForTerminal: true)
    /// For complete JSON shown on a terminal; its meaning stays.
    package static let jsonForTerminal = JSONEscape(.json, isForTerminal: true)

    private init(_ style: Style, isForTerminal: Bool) {
        self.style = style
        self.isForTerminal = isForTerminal
        var suspects = [Bool](repeating: false, count: 256)
        // C0 and DEL; C2 leads C1 characters, E2 the line separators.
        for byte in [0x7F, 0xC2, 0xE2] { suspects[byte] = true }
        for byte in 0..<0x20 { suspects[byte] = true }
        if style == .string { for byte in [0x22, 0x5C] { suspects[byte] = true } }
        // Lead bytes of invisible characters and of those that change the text's direction.
        if isForTerminal { for byte in [0xD8, 0xE1, 0xEF, 0xF3] { suspects[byte] = true } }
        self.suspects = suspects
    }

    /// Appends a UTF-8 text with its escapes; the rest is copied in runs.
    ///
    /// An invalid byte stays as it is or is escaped as a character of that value.
    package func append(_ text: UnsafeRawBufferPointer, to bytes: inout [UInt8]) {
        suspects.withUnsafeBufferPointer { suspects in
            var start = 0
            var index = 0
            while index < text.count {
                guard suspects[Int(text[index])] else {
                    index += 1
                    continue
                }
                let (scalar, length) = JSONEscape.decode(text, at: index)
                if needsEscape(scalar) {
                    bytes.append(contentsOf: UnsafeRawBufferPointer(rebasing: text[start..<index]))
                    appendEscape(of: scalar, to: &bytes)
                    start = index + length
                }
                index += length
            }
            bytes.append(contentsOf: UnsafeRawBufferPointer(rebasing: text[start...]))
        }
    }

    private func needsEscape(_ scalar: UInt32) -> Bool {
        switch scalar {
        case 0x00...0x1F, 0x7F...0x9F, 0x2028, 0x2029: true
        case 0x22, 0x5C: style == .string
        default: isForTerminal && TerminalText.isInvisible(scalar)
        }
    }

    private func appendEscape(of scalar: UInt32, to bytes: inout [UInt8]) {
        switch scalar {
        case 0x09 where style == .json, 0x0A where style == .json, 0x0D where style == .json: bytes.append(0x20)
        case 0x22, 0x5C: JSONEscape.append(short: UInt8(scalar), to: &bytes)
        case 0x0A: JSONEscape.append(short: UInt8(ascii: "n"), to: &bytes)
        case 0x0D: JSONEscape.append(short: UInt8(ascii: "r"), to: &bytes)
        case 0x09: JSONEscape.append(short: UInt8(ascii: "t"), to: &bytes)
        case 0x10000...:
            for unit in UTF16.encode(Unicode.Scalar(scalar) ?? "\u{FFFD}") ?? UTF16.encodedReplacementCharacter {
                JSONEscape.append(unit: UInt16(unit), to: &bytes)
            }
        default: JSONEscape.append(unit: UInt16(truncatingIfNeeded: scalar), to: &bytes)
        }
    }

    private static func append(short character: UInt8, to bytes: inout [UInt8]) {
        bytes.append(UInt8(ascii: "\\"))
        bytes.append(character)
    }

    package static func append(unit: UInt16, to bytes: inout [UInt8]) {
        bytes.append(UInt8(ascii: "\\"))
        bytes.append(UInt8(ascii: "u"))
        for shift in [12, 8, 4, 0] as [UInt16] { bytes.append(Hex.digit(UInt8(truncatingIfNeeded: unit >> shift))) }
    }

    /// Decodes the character at `index` without reading past the end; a byte that begins none stands for itself.
    private static func decode(_ text: UnsafeRawBufferPointer, at index: Int) -> (scalar: UInt32, length: Int) {
        let lead = text[index]
        let length = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4
        guard length > 1, index + length <= text.count else { return (UInt32(lead), 1) }
        var scalar = UInt32(lead) & (0x7F >> UInt32(length))
        for place in (index + 1)..<(index + length) {
            // Invalid UTF-8: the next byte is looked at by itself, since it may be a control character.
            guard text[place] & 0xC0 == 0x80 else { return (UInt32(lead), 1) }
            scalar = scalar << 6 | UInt32(text[place] & 0x3F)
        }
        return (scalar, length)
    }
}
