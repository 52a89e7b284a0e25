/// Escapes untrusted text for a terminal.
///
/// Categories, ids and payloads come from apps that anybody can write. Control characters, invisible ones and those
/// that change the text's direction are shown by number, so that text can neither move the cursor nor disguise itself.
package enum TerminalText {
    /// The text on one line, with `\n`, `\r`, `\t` and `\u{…}` for unsafe characters.
    package static func escape(_ text: some StringProtocol) -> String {
        guard !text.utf8.allSatisfy({ (0x20..<0x7F).contains($0) }) else { return String(text) }
        var shown = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            guard isUnsafe(scalar) else {
                shown.append(scalar)
                continue
            }
            switch scalar {
            case "\n": shown += "\\n".unicodeScalars
            case "\r": shown += "\\r".unicodeScalars
            case "\t": shown += "\\t".unicodeScalars
            default: shown += "\\u{\(String(scalar.value, radix: 16, uppercase: true))}".unicodeScalars
            }
        }
        return String(shown)
    }

    /// JSON on one line, with `\uXXXX` for unsafe characters in strings; its meaning stays.
    package static func escape(json: String) -> String {
        guard json.unicodeScalars.contains(where: isUnsafe) else { return json }
        var shown = String.UnicodeScalarView()
        for scalar in json.unicodeScalars {
            guard isUnsafe(scalar) else {
                shown.append(scalar)
                continue
            }
            // Line ends and tabs stand between tokens only.
            if ["\n", "\r", "\t"].contains(scalar) {
                shown.append(" ")
                continue
            }
            for unit in UTF16.encode(scalar) ?? UTF16.encodedReplacementCharacter {
                shown += "\\u\(Hex.encode(unit))".unicodeScalars
            }
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

    /// Whether a character is invisible or changes the text's direction (bidirectional controls, zero width characters,
    /// byte order mark, tags).
    package static func isInvisible(_ scalar: UInt32) -> Bool {
        switch scalar {
        case 0xAD, 0x61C, 0x180E, 0x200B...0x200F, 0x202A...0x202E, 0x2060...0x206F, 0xFEFF, 0xFFF9...0xFFFB,
            0xE0000...0xE0FFF:
            true
        default: false
        }
    }
}
