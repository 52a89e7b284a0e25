/// Escapes untrusted text, so that it can neither move a terminal's cursor nor disguise itself.
///
/// Control characters, invisible ones and those that change the text's direction are shown by number.
package enum TerminalText {
    /// The text on one line, with `\n`, `\r`, `\t` and `\u{…}` for unsafe characters.
    package static func escape(_ text: some StringProtocol) -> String {
        guard !text.utf8.allSatisfy({ (0x20..<0x7F).contains($0) }) else { return String(text) }
        return replacing(text) { scalar in
            switch scalar {
            case "\n": "\\n"
            case "\r": "\\r"
            case "\t": "\\t"
            default: "\\u{\(String(scalar.value, radix: 16, uppercase: true))}"
            }
        }
    }

    /// JSON on one line, with `\uXXXX` for unsafe characters in strings; its meaning stays.
    package static func escape(json: String) -> String {
        guard json.unicodeScalars.contains(where: isUnsafe) else { return json }
        return replacing(json) { scalar in
            // Line ends and tabs stand between tokens only.
            if ["\n", "\r", "\t"].contains(scalar) { return " " }
            return (UTF16.encode(scalar) ?? UTF16.encodedReplacementCharacter).map { "\\u\(Hex.encode($0))" }.joined()
        }
    }

    private static func replacing(_ text: some StringProtocol, _ escape: (Unicode.Scalar) -> String) -> String {
        var shown = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            if isUnsafe(scalar) { shown += escape(scalar).unicodeScalars } else { shown.append(scalar) }
        }
        return String(shown)
    }

    /// Any bytes on one line: text as in ``escape(_:)``, `\xNN` for bytes that are not UTF-8.
    package static func escape(bytes: [UInt8]) -> String {
        var shown = ""
        var decoder = UTF8()
        var iterator = bytes[...].makeIterator()
        var position = 0
        while true {
            switch decoder.decode(&iterator) {
            case .scalarValue(let scalar):
                shown += escape(String(scalar))
                position += UTF8.width(scalar)
            case .emptyInput: return shown
            case .error:
                // One byte at a time: the decoder may have read ahead, so a new one starts behind this byte.
                shown += "\\x" + Hex.encode(CollectionOfOne(bytes[position])).uppercased()
                position += 1
                decoder = UTF8()
                iterator = bytes[position...].makeIterator()
            }
        }
    }

    private static func isUnsafe(_ scalar: Unicode.Scalar) -> Bool {
        if scalar.isASCII { return scalar.value < 0x20 || scalar.value == 0x7F }
        switch scalar.properties.generalCategory {
        case .control, .format, .surrogate, .privateUse, .unassigned, .lineSeparator, .paragraphSeparator: return true
        default: return isInvisible(scalar.value)
        }
    }

    /// Whether a character is invisible or changes the text's direction.
    package static func isInvisible(_ scalar: UInt32) -> Bool {
        switch scalar {
        case 0xAD, 0x61C, 0x180E, 0x200B...0x200F, 0x202A...0x202E, 0x2060...0x206F, 0xFEFF, 0xFFF9...0xFFFB,
            0xE0000...0xE0FFF:
            true
        default: false
        }
    }
}
