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
        var (layout, page, nodes) = (JSONLayout(text), FoldedLines(), 0)
        while nodes < mostNodes {
            let (start, place) = (layout.at, page.place)
            guard let piece = layout.next() else { break }
            if piece.beginsLine { page.close(layout.indentation) }
            switch piece.content {
            case .mark(let mark):
                // An opening bracket, of a container that has something.
                if piece.endsLine, mark.utf8Start[0] != UInt8(ascii: ",") {
                    guard page.size + FoldedLines.foldSize <= budget else { return (page.closed, start) }
                    nodes += 1
                    page.open(mark, layout.indentation)
                    break
                }
                page.append(mark)
                // An empty container.
                if mark.utf8Start[0] | 0x20 == UInt8(ascii: "{") { nodes += 1 }
                if piece.endsLine { page.newLine(layout.indentation) }
            case .name(let range): page.append(text[range], "<span class=\"j-name\">")
            case .string(let range): page.append(text[range], "<span class=\"j-text\">")
            case .other(let range): page.append(text[range], "<span class=\"j-value\">")
            }
            if case .mark = piece.content {} else { nodes += 1 }
            guard page.size > budget else { continue }
            // Drops this piece: a tag is never cut.
            page.back(to: place)
            return (page.closed, start)
        }
        return (page.closed, layout.at)
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

/// Lines of which those between brackets fold.
private struct FoldedLines {
    /// The deepest that folds: a browser's parser flattens what is nested deeper than some hundred elements.
    private static let deepest = 32
    private static let (opening, closing): (StaticString, StaticString) = ("<details open><summary>", "</details>")
    /// More than a bracket adds, with its indentation.
    static let foldSize = 160

    private var out: [UInt8] = []
    /// Where the present line begins.
    private var line = 0
    /// Of each bracket that is open, whether its lines fold.
    private var folds: [Bool] = []

    /// The bytes with all that is open closed.
    var size: Int { out.count + min(folds.count, Self.deepest) * Self.closing.utf8CodeUnitCount }

    /// What ``back(to:)`` returns to, unless a bracket was opened since.
    var place: (count: Int, line: Int, folds: [Bool]) { (out.count, line, folds) }

    mutating func back(to place: (count: Int, line: Int, folds: [Bool])) {
        out.removeSubrange(place.count...)
        (line, folds) = (place.line, place.folds)
    }

    var closed: [UInt8] {
        var whole = self
        for _ in 0..<folds.count(where: { $0 }) { whole.append(Self.closing) }
        return whole.out
    }

    mutating func append(_ mark: StaticString) { mark.withUTF8Buffer { out.append(contentsOf: $0) } }

    /// Isolates each value: right-to-left letters in it must not move the punctuation around it.
    mutating func append(_ value: Slice<UnsafeBufferPointer<UInt8>>, _ tag: StaticString) {
        append(tag)
        append("<bdi>")
        PageText.append(marking: String(decoding: value, as: UTF8.self), to: &out)
        append("</bdi></span>")
    }

    mutating func newLine(_ indentation: Int) {
        out.append(UInt8(ascii: "\n"))
        indent(indentation)
    }

    /// Ends the line with a bracket behind which the next lines fold.
    mutating func open(_ bracket: StaticString, _ indentation: Int) {
        let isFold = folds.count < Self.deepest
        folds.append(isFold)
        guard isFold else {
            append(bracket)
            return newLine(indentation)
        }
        // The block begins a line by itself.
        if line > 0, out[line - 1] == UInt8(ascii: "\n") {
            line -= 1
            out.remove(at: line)
        }
        Self.opening.withUTF8Buffer { out.insert(contentsOf: $0, at: line) }
        append(bracket)
        append("</summary>")
        // The summary is a block, whose end is the line's.
        indent(indentation)
    }

    /// Begins the line of the closing bracket.
    mutating func close(_ indentation: Int) {
        guard folds.popLast() == true else { return newLine(indentation) }
        append(Self.closing)
        indent(indentation)
    }

    private mutating func indent(_ indentation: Int) {
        line = out.count
        out += repeatElement(UInt8(ascii: " "), count: indentation)
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
