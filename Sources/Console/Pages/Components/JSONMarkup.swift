import Vocabulary

/// JSON text laid out over lines, with its names, strings and other values told apart; they stay as they were written.
///
/// Works along the bytes without recursion, so that neither depth nor breakage of a payload matters: what is no JSON
/// comes out as text.
struct JSONMarkup {
    /// Further levels are not indented any more.
    private static let deepest = 40

    private let json: [UInt8]
    private let isPlain: Bool
    private var index = 0
    private var depth = 0
    private var out: [UInt8] = []

    private init(_ json: [UInt8], isPlain: Bool = false) {
        self.json = json
        self.isPlain = isPlain
        out.reserveCapacity(json.count * 2)
    }

    /// JSON as HTML for a `pre`.
    ///
    /// - Parameters:
    ///   - json: The text as the device wrote it.
    ///   - limit: The most bytes of it that are shown.
    /// - Returns: The markup; what is beyond the limit is left out.
    static func html(_ json: [UInt8], limit: Int = 128 << 10) -> HTML {
        var markup = JSONMarkup(json.count > limit ? Array(json[..<limit]) : json)
        markup.run()
        return HTML.escaped { $0 = markup.out }
    }

    /// The same lines as plain text, to be compared with others.
    static func lines(_ json: [UInt8]) -> [String] {
        var markup = JSONMarkup(json, isPlain: true)
        markup.run()
        return markup.out.split(separator: UInt8(ascii: "\n")).map { String(decoding: $0, as: UTF8.self) }
    }

    private mutating func run() {
        while index < json.count {
            let byte = json[index]
            switch byte {
            case 0x20, 0x09, 0x0A, 0x0D: index += 1
            case UInt8(ascii: "{"), UInt8(ascii: "["): open(byte)
            case UInt8(ascii: "}"), UInt8(ascii: "]"):
                depth = max(0, depth - 1)
                index += 1
                newLine()
                out.append(byte)
            case UInt8(ascii: ","):
                index += 1
                out.append(byte)
                newLine()
            case UInt8(ascii: ":"):
                index += 1
                out += ": ".utf8
            case UInt8(ascii: "\""): string()
            default: word()
            }
        }
    }

    private mutating func open(_ byte: UInt8) {
        out.append(byte)
        index += 1
        skipSpaces()
        if index < json.count, json[index] == byte + 2 {
            out.append(json[index])
            index += 1
        } else {
            depth += 1
            newLine()
        }
    }

    private mutating func newLine() {
        out.append(UInt8(ascii: "\n"))
        out += repeatElement(UInt8(ascii: " "), count: min(depth, Self.deepest) * 2)
    }

    private mutating func skipSpaces() {
        while index < json.count, [0x20, 0x09, 0x0A, 0x0D].contains(json[index]) { index += 1 }
    }

    private mutating func string() {
        let start = index
        index += 1
        while index < json.count, json[index] != UInt8(ascii: "\"") {
            index += json[index] == UInt8(ascii: "\\") ? 2 : 1
        }
        index = min(index + 1, json.count)
        let end = index
        skipSpaces()
        let isName = index < json.count && json[index] == UInt8(ascii: ":")
        append(start..<end, isName ? "<span class=\"j-name\">" : "<span class=\"j-text\">")
    }

    private mutating func word() {
        let start = index
        let ends: [UInt8] = [0x20, 0x09, 0x0A, 0x0D] + "{}[],:\"".utf8
        while index < json.count, !ends.contains(json[index]) { index += 1 }
        append(start..<index, "<span class=\"j-value\">")
    }

    /// Each value is isolated: right-to-left letters in it leave the commas and braces around it where they are.
    private mutating func append(_ range: Range<Int>, _ opening: StaticString) {
        guard !isPlain else {
            // A line end is no part of a JSON string; in what is none it would begin another line.
            return out.append(contentsOf: json[range].lazy.map { $0 == 0x0A ? 0x20 : $0 })
        }
        opening.withUTF8Buffer { out.append(contentsOf: $0) }
        out += "<bdi>".utf8
        PageText.append(marking: String(decoding: json[range], as: UTF8.self), to: &out)
        out += "</bdi></span>".utf8
    }
}

/// Bytes as a hex dump: offset, sixteen bytes, and the characters that are ASCII.
enum HexDump {
    /// The dump's lines for a `pre`.
    ///
    /// - Parameters:
    ///   - bytes: What is dumped.
    ///   - limit: The most bytes that are shown.
    /// - Returns: The lines.
    static func html(_ bytes: [UInt8], limit: Int = 32 << 10) -> HTML {
        let shown = bytes.prefix(limit)
        var text = ""
        for start in stride(from: 0, to: shown.count, by: 16) {
            let line = shown[start..<min(start + 16, shown.count)]
            let offset = String(start, radix: 16)
            text += String(repeating: "0", count: max(0, 6 - offset.count)) + offset + "  "
            for place in 0..<16 {
                text += place < line.count ? Hex.encode(CollectionOfOne(line[start + place])) + " " : "   "
                if place == 7 { text += " " }
            }
            text += " "
            for byte in line { text.unicodeScalars.append((0x20..<0x7F).contains(byte) ? Unicode.Scalar(byte) : "·") }
            text += "\n"
        }
        return "\(exact: text)"
    }
}
