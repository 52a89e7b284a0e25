extension Stanza {
    /// An element as a stanza of its own, such as a forwarded message; ``raw`` is its text as received.
    package func part(_ index: Int) -> Stanza {
        let part = Stanza()
        let top = elements[index]
        part.bytes = bytes
        part.attributes = attributes
        part.elements = elements[index..<max(top.end, index + 1)].map { element in
            var element = element
            element.depth -= top.depth
            element.end -= index
            return element
        }
        part.raw = Array(raw[range(of: index)])
        return part
    }

    /// The place of an element in ``raw``, which is well-formed and without comments; empty if it is not found.
    private func range(of index: Int) -> Range<Int> {
        var (at, opened, depth) = (0, -1, 0)
        var start: (at: Int, depth: Int)?
        while let open = raw[at...].firstIndex(of: UInt8(ascii: "<")) {
            if raw[open...].starts(with: "<![CDATA[".utf8) {
                at = raw[open...].firstRange(of: "]]>".utf8)?.upperBound ?? raw.count
                continue
            }
            var quote: UInt8?
            let close = raw[open...].firstIndex { byte in
                if let mark = quote {
                    if byte == mark { quote = nil }
                } else if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "'") {
                    quote = byte
                }
                return quote == nil && byte == UInt8(ascii: ">")
            }
            guard let close else { break }
            at = close + 1
            if raw[open + 1] == UInt8(ascii: "/") {
                depth -= 1
            } else {
                opened += 1
                if opened == index { start = (open, depth) }
                if raw[close - 1] != UInt8(ascii: "/") { depth += 1 }
            }
            if let start, depth == start.depth { return start.at..<at }
        }
        return 0..<0
    }
}
