/// Text from strangers, made fit for a terminal.
///
/// Categories, ids and payloads come from apps that anybody can write. A terminal acts on control characters, and some
/// characters turn the direction of text or take no place; these are shown by their number, so that what is printed
/// can neither move the cursor nor look like something else.
package enum TerminalText {
    /// The text on one line, with `\n`, `\r`, `\t` and `\u{…}` for what a terminal may act on.
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

    /// JSON on one line, with `\uXXXX` in its strings for what a terminal may act on; it means the same.
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
                let digits = String(unit, radix: 16)
                shown += ("\\u" + String(repeating: "0", count: 4 - digits.utf8.count) + digits).unicodeScalars
            }
        }
        return String(shown)
    }

    /// Bytes of any kind on one line: text as ``escape(_:)`` gives it, `\xNN` for bytes that are no UTF-8.
    package static func escape(bytes: [UInt8]) -> String {
        var shown = ""
        var decoder = UTF8()
        var iterator = bytes.makeIterator()
        var position = 0
        while true {
            switch decoder.decode(&iterator) {
            case .scalarValue(let scalar):
                shown += escape(String(scalar))
                position += UTF8.width(scalar)
            case .emptyInput: return shown
            case .error:
                // One byte at a time: the decoder may have read ahead, so it starts anew behind this one.
                let digits = String(bytes[position], radix: 16, uppercase: true)
                shown += "\\x" + (digits.count == 1 ? "0" : "") + digits
                position += 1
                decoder = UTF8()
                iterator = bytes[position...].map(\.self).makeIterator()
            }
        }
    }

    private static func isUnsafe(_ scalar: Unicode.Scalar) -> Bool {
        if scalar.isASCII { return scalar.value < 0x20 || scalar.value == 0x7F }
        switch scalar.properties.generalCategory {
        case .control, .format, .surrogate, .privateUse, .unassigned, .lineSeparator, .paragraphSeparator: return true
        default: return EscapeTable.isInvisible(scalar.value)
        }
    }

    /// How many columns an escaped text takes.
    package static func width(_ text: some StringProtocol) -> Int {
        text.unicodeScalars.reduce(0) { $0 + width($1) }
    }

    /// Cuts an escaped text to a number of columns; what is cut ends in `…`.
    package static func cut(_ text: String, to limit: Int) -> String {
        var columns = 0
        var marks = 0
        var kept = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            let width = width(scalar)
            // Marks take no column; a text of nothing else still has an end.
            marks = width == 0 ? marks + 1 : 0
            guard columns + width <= limit, marks <= 8 else {
                while columns > max(0, limit - 1), let last = kept.popLast() { columns -= Self.width(last) }
                return limit > 0 ? String(kept) + "…" : ""
            }
            columns += width
            kept.append(scalar)
        }
        return text
    }

    /// 0 for marks that stand on the character before, 2 for the wide characters of East Asia and pictures, else 1.
    private static func width(_ scalar: Unicode.Scalar) -> Int {
        if scalar.value < 0x300 { return 1 }
        switch scalar.properties.generalCategory {
        case .nonspacingMark, .enclosingMark: return 0
        default: break
        }
        switch scalar.value {
        case 0x1100...0x115F, 0x2E80...0x303E, 0x3041...0xA4CF, 0xA960...0xA97F, 0xAC00...0xD7A3, 0xF900...0xFAFF,
            0xFE30...0xFE6F, 0xFF00...0xFF60, 0xFFE0...0xFFE6, 0x1F300...0x1F64F, 0x1F680...0x1F6FF, 0x1F900...0x1F9FF,
            0x20000...0x3FFFD:
            return 2
        default: return 1
        }
    }
}

extension String.UnicodeScalarView {
    fileprivate mutating func popLast() -> Unicode.Scalar? { isEmpty ? nil : removeLast() }
}
