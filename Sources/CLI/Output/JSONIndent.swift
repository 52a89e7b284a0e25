import Vocabulary

/// Indents JSON for people; names, strings and numbers stay verbatim.
package enum JSONIndent {
    /// The lines, two spaces per level, safe for a terminal.
    ///
    /// `json` must be valid.
    package static func lines(_ json: [UInt8]) -> [String] {
        var lines: [String] = []
        var line: [UInt8] = []
        var depth = 0
        var isInString = false
        var isEscaped = false
        func flush() {
            lines.append(TerminalText.escape(String(decoding: line, as: UTF8.self)))
            line = [UInt8](repeating: UInt8(ascii: " "), count: depth * 2)
        }
        var index = 0
        while index < json.count {
            let byte = json[index]
            index += 1
            if isInString {
                line.append(byte)
                if isEscaped {
                    isEscaped = false
                } else if byte == UInt8(ascii: "\\") {
                    isEscaped = true
                } else if byte == UInt8(ascii: "\"") {
                    isInString = false
                }
                continue
            }
            switch byte {
            case 0x20, 0x09, 0x0A, 0x0D: break
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                line.append(byte)
                while index < json.count, [0x20, 0x09, 0x0A, 0x0D].contains(json[index]) { index += 1 }
                if index < json.count, json[index] == byte + 2 {
                    line.append(json[index])
                    index += 1
                } else {
                    depth += 1
                    flush()
                }
            case UInt8(ascii: "}"), UInt8(ascii: "]"):
                depth = max(0, depth - 1)
                flush()
                line.append(byte)
            case UInt8(ascii: ","):
                line.append(byte)
                flush()
            case UInt8(ascii: ":"): line += ": ".utf8
            default:
                if byte == UInt8(ascii: "\"") { isInString = true }
                line.append(byte)
            }
        }
        flush()
        return lines
    }
}
