import Vocabulary

/// JSON text laid out over lines, with markup for names, strings and other values, which keep their spelling.
///
/// Works along the bytes without recursion, so that neither depth nor breakage of a payload matters: what is not JSON
/// is shown as text.
struct JSONMarkup {
    /// The deepest level that is indented.
    private static let deepest = 40
    /// The most names, values and brackets laid out; the rest is folded.
    private static let mostNodes = 2_000

    private let json: [UInt8]
    private let isPlain: Bool
    /// The most bytes of output: markup must not inflate a device's payload.
    private let budget: Int
    private var index = 0
    private var depth = 0
    private var nodes = 0
    private var lineCount = 1
    private var isOver = false
    private var out: [UInt8] = []

    private init(_ json: [UInt8], isPlain: Bool = false) {
        self.json = json
        self.isPlain = isPlain
        budget = max(json.count * 4, 16 << 10)
    }

    struct Shown {
        /// The laid-out beginning, for a `pre`.
        var html: HTML
        /// The rest as it came, for another `pre`; nil if there is none.
        var rest: HTML?
        /// Whether the two are the whole value.
        var isWhole: Bool
    }

    /// JSON as HTML, at most four times as long, or 16 KiB.
    ///
    /// - Parameters:
    ///   - json: The device's text.
    ///   - limit: The most bytes of it to show.
    /// - Returns: The markup, without the part beyond the limit.
    static func html(_ json: [UInt8], limit: Int = 128 << 10) -> Shown {
        var markup = JSONMarkup(json.count > limit ? Array(json[..<limit]) : json)
        markup.run()
        let html = HTML.escaped { $0 = markup.out }
        guard markup.isOver else { return Shown(html: html, rest: nil, isWhole: json.count <= limit) }
        let isWhole = markup.writeRest()
        return Shown(
            html: html,
            rest: HTML.escaped { $0 = markup.out },
            isWhole: isWhole && json.count <= limit
        )
    }

    /// The same lines as plain text, for comparisons.
    ///
    /// - Parameters:
    ///   - json: The device's text.
    ///   - limit: The approximate number of lines.
    /// - Returns: The lines.
    static func lines(_ json: [UInt8], limit: Int = .max) -> [String] {
        var markup = JSONMarkup(json, isPlain: true)
        while markup.lineCount <= limit, markup.step() {}
        return markup.out.split(separator: UInt8(ascii: "\n")).map { String(decoding: $0, as: UTF8.self) }
    }

    private mutating func run() {
        while nodes < Self.mostNodes {
            let (start, count, before) = (index, out.count, depth)
            guard step() else { return }
            guard out.count > budget else { continue }
            // Drops this piece: a tag is never cut.
            (index, depth) = (start, before)
            out.removeSubrange(count...)
            break
        }
        isOver = index < json.count
    }

    /// Replaces the output with the rest of the text, as far as the budget allows.
    ///
    /// - Returns: Whether that was all of it.
    private mutating func writeRest() -> Bool {
        var left = budget - out.count
        out = []
        var scalars = String(decoding: json[index...], as: UTF8.self).unicodeScalars[...]
        while !scalars.isEmpty {
            let piece = scalars.prefix(256)
            let count = out.count
            PageText.append(marking: String(piece), lines: true, to: &out)
            left -= out.count - count
            guard left >= 0 else {
                out.removeSubrange(count...)
                return false
            }
            scalars = scalars.dropFirst(256)
        }
        return true
    }

    /// Writes the next piece.
    ///
    /// - Returns: Whether there was one.
    private mutating func step() -> Bool {
        guard index < json.count else { return false }
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
        return true
    }

    private mutating func open(_ byte: UInt8) {
        out.append(byte)
        nodes += 1
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
        lineCount += 1
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

    /// Isolates each value: right-to-left letters in it must not move the punctuation around it.
    private mutating func append(_ range: Range<Int>, _ opening: StaticString) {
        nodes += 1
        guard !isPlain else {
            // No JSON string has a line end; in broken text it would begin another line.
            return out.append(contentsOf: json[range].lazy.map { $0 == 0x0A ? 0x20 : $0 })
        }
        opening.withUTF8Buffer { out.append(contentsOf: $0) }
        out += "<bdi>".utf8
        PageText.append(marking: String(decoding: json[range], as: UTF8.self), to: &out)
        out += "</bdi></span>".utf8
    }
}

/// A hex dump: offset, sixteen bytes, and the characters that are ASCII.
enum HexDump {
    /// The dump's lines for a `pre`.
    ///
    /// - Parameters:
    ///   - bytes: The bytes.
    ///   - limit: The most bytes to show.
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
