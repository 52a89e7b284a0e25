import Vocabulary

/// JSON text laid out over lines, with markup for names, strings and other values, which keep their spelling.
///
/// Works along the bytes without recursion, so that neither depth nor breakage of a payload matters: what is not JSON
/// is shown as text.
enum JSONMarkup {
    /// The most names, values and brackets laid out; the rest is folded.
    private static let mostNodes = 2_000

    struct Shown {
        /// The laid-out beginning, for a `pre`.
        var html: HTML
        /// The rest as it came, for another `pre`; nil if there is none.
        var rest: HTML?
        /// Whether the two are the whole value.
        var isWhole: Bool
    }

    /// JSON as HTML, at most four times as long, or 16 KiB: markup must not inflate a device's payload.
    static func html(_ json: [UInt8], limit: Int = 128 << 10) -> Shown {
        json.withUnsafeBufferPointer { json in
            let text = UnsafeBufferPointer(rebasing: json.prefix(limit))
            let budget = max(text.count * 4, 16 << 10)
            let (out, end) = laidOut(text, budget)
            let html = HTML.escaped { $0 = out }
            guard end < text.count else { return Shown(html: html, rest: nil, isWhole: json.count <= limit) }
            let (rest, isWhole) = folded(text[end...], budget - out.count)
            return Shown(html: html, rest: HTML.escaped { $0 = rest }, isWhole: isWhole && json.count <= limit)
        }
    }

    /// The beginning of a text, and where it ends.
    private static func laidOut(_ text: UnsafeBufferPointer<UInt8>, _ budget: Int) -> ([UInt8], Int) {
        var layout = JSONLayout(text)
        var (out, nodes): ([UInt8], Int) = ([], 0)
        func newLine() {
            out.append(UInt8(ascii: "\n"))
            out += repeatElement(UInt8(ascii: " "), count: layout.indentation)
        }
        /// Isolates each value: right-to-left letters in it must not move the punctuation around it.
        func append(_ range: Range<Int>, _ opening: StaticString) {
            nodes += 1
            opening.withUTF8Buffer { out.append(contentsOf: $0) }
            out += "<bdi>".utf8
            PageText.append(marking: String(decoding: text[range], as: UTF8.self), to: &out)
            out += "</bdi></span>".utf8
        }
        while nodes < mostNodes {
            let (start, count) = (layout.at, out.count)
            guard let piece = layout.next() else { break }
            if piece.beginsLine { newLine() }
            switch piece.content {
            case .mark(let mark):
                mark.withUTF8Buffer { out.append(contentsOf: $0) }
                // An opening bracket.
                if mark.utf8Start[0] | 0x20 == UInt8(ascii: "{") { nodes += 1 }
            case .name(let range): append(range, "<span class=\"j-name\">")
            case .string(let range): append(range, "<span class=\"j-text\">")
            case .other(let range): append(range, "<span class=\"j-value\">")
            }
            if piece.endsLine { newLine() }
            guard out.count > budget else { continue }
            // Drops this piece: a tag is never cut.
            out.removeSubrange(count...)
            return (out, start)
        }
        return (out, layout.at)
    }

    /// The rest of the text, as far as the budget allows, and whether that is all of it.
    private static func folded(_ text: Slice<UnsafeBufferPointer<UInt8>>, _ budget: Int) -> ([UInt8], Bool) {
        var out: [UInt8] = []
        var scalars = String(decoding: text, as: UTF8.self).unicodeScalars[...]
        while !scalars.isEmpty {
            let count = out.count
            PageText.append(marking: String(scalars.prefix(256)), lines: true, to: &out)
            guard out.count <= budget else {
                out.removeSubrange(count...)
                return (out, false)
            }
            scalars = scalars.dropFirst(256)
        }
        return (out, true)
    }
}

/// A hex dump: offset, sixteen bytes, and the characters that are ASCII.
enum HexDump {
    /// The dump's lines for a `pre`.
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
