import CBytes
import Glibc

extension PlainStanzaReader {
    @inline(__always)
    func peek() throws(Refusal) -> UInt8 {
        guard at < end else { throw .unfinished }
        return input[at]
    }

    @inline(__always)
    mutating func expect(_ byte: UInt8) throws(Refusal) {
        guard try peek() == byte else { throw .other }
        at += 1
    }

    func spells(_ start: Int, _ count: Int, _ text: StaticString) -> Bool {
        count == text.utf8CodeUnitCount && memcmp(input + start, text.utf8Start, count) == 0
    }

    mutating func readName() throws(Refusal) {
        switch try peek() {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "_"): at += 1
        default: throw .other
        }
        while at < end {
            switch input[at] {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"), UInt8(ascii: "."):
                at += 1
            default: return
            }
        }
    }

    /// Reads an attribute's value from its `=` on, and stores it.
    mutating func readValue() throws(Refusal) -> Range<Int> {
        try expect(UInt8(ascii: "="))
        let quote = try peek()
        guard quote == UInt8(ascii: "'") || quote == UInt8(ascii: "\"") else { throw .other }
        at += 1
        let found = memchr(input + at, Int32(quote), end - at)
        let valueEnd = found.map { UnsafePointer($0.assumingMemoryBound(to: UInt8.self)) - input } ?? end
        let start = written
        while true {
            copyPlain(upTo: valueEnd)
            guard at < valueEnd else { break }
            // Not plain, or one of the input's last 15 bytes.
            switch input[at] {
            case 0x20..<0x80 where input[at] != UInt8(ascii: "<") && input[at] != UInt8(ascii: "&"): copyByte()
            default: throw .other
            }
        }
        guard found != nil else { throw .unfinished }
        at += 1
        return start..<written
    }

    /// Reads the innermost open element's text up to the `<` of the next tag.
    mutating func readContent() throws(Refusal) {
        let start = written
        while true {
            copyPlain(upTo: end)
            switch try peek() {
            case UInt8(ascii: "<"):
                guard at + 1 < end else { throw .unfinished }
                if input[at + 1] == UInt8(ascii: "!") {
                    try readSection()
                    continue
                }
                return try keepText(from: start)
            case UInt8(ascii: "&"): try readReference()
            case UInt8(ascii: ">"):
                // `]]>` is not allowed in text. There is always something before text.
                if input[at - 1] == UInt8(ascii: "]"), input[at - 2] == UInt8(ascii: "]") { throw .other }
                copyByte()
            default: try copyCharacter()
            }
        }
    }

    private mutating func keepText(from start: Int) throws(Refusal) {
        guard written > start, let element = open.last?.element else { return }
        // Text in two pieces, with a child between them, would have to be joined.
        guard elements[element].text.isEmpty else { throw .other }
        elements[element].text = start..<written
    }

    private mutating func readSection() throws(Refusal) {
        let opening: StaticString = "<![CDATA["
        let count = min(opening.utf8CodeUnitCount, end - at)
        guard memcmp(input + at, opening.utf8Start, count) == 0 else { throw .other }
        guard count == opening.utf8CodeUnitCount else { throw .unfinished }
        at += opening.utf8CodeUnitCount
        let start = at
        while true {
            copyPlain(upTo: end)
            switch try peek() {
            case UInt8(ascii: "<"), UInt8(ascii: "&"): copyByte()
            case UInt8(ascii: ">"):
                copyByte()
                if at >= start + 3, input[at - 2] == UInt8(ascii: "]"), input[at - 3] == UInt8(ascii: "]") {
                    written -= 3
                    return
                }
            default: try copyCharacter()
            }
        }
    }

    private mutating func readReference() throws(Refusal) {
        var word: UInt64 = 0
        if end - at >= 8 {
            word = UnsafeRawPointer(input).loadUnaligned(fromByteOffset: at, as: UInt64.self)
        } else {
            memcpy(&word, input + at, end - at)
        }
        word = UInt64(littleEndian: word)
        let character: UInt8
        if word & 0xffff_ffff_ffff == 0x3b74_6f75_7126 {  // &quot;
            character = UInt8(ascii: "\"")
            at += 6
        } else if word & 0xff_ffff_ffff == 0x3b_706d_6126 {  // &amp;
            character = UInt8(ascii: "&")
            at += 5
        } else if word & 0xffff_ffff == 0x3b74_6c26 {  // &lt;
            character = UInt8(ascii: "<")
            at += 4
        } else if word & 0xffff_ffff == 0x3b74_6726 {  // &gt;
            character = UInt8(ascii: ">")
            at += 4
        } else if word & 0xffff_ffff_ffff == 0x3b73_6f70_6126 {  // &apos;
            character = UInt8(ascii: "'")
            at += 6
        } else {
            throw beginsReference() ? .unfinished : .other
        }
        output[written] = character
        written += 1
    }

    /// Whether the input ends inside one of the five references.
    private func beginsReference() -> Bool {
        let references: [StaticString] = ["&quot;", "&amp;", "&lt;", "&gt;", "&apos;"]
        let left = end - at
        return references.contains { left < $0.utf8CodeUnitCount && memcmp(input + at, $0.utf8Start, left) == 0 }
    }

    /// Copies one character that is allowed and not markup.
    private mutating func copyCharacter() throws(Refusal) {
        switch input[at] {
        case 0x20..<0x80, 0x09, 0x0A: return copyByte()
        case 0x80...: break
        default: throw .other
        }
        let length = upstream_utf8_length(input + at, end &- at)
        guard length > 0 else { throw length < 0 ? .unfinished : .other }
        if length == 3, UTF8Check.isNoncharacter(input[at], input[at + 1], input[at + 2]) { throw .other }
        for _ in 0..<length { copyByte() }
    }

    @inline(__always)
    private mutating func copyByte() {
        output[written] = input[at]
        written += 1
        at += 1
    }

    /// Copies up to the next byte that is `<`, `>`, `&`, a control character or non-ASCII.
    ///
    /// It may stop early within the last 15 bytes of the input. It may write garbage behind ``written``.
    @inline(__always)
    private mutating func copyPlain(upTo limit: Int) {
        let count = upstream_copy_plain_xml(input + at, output + written, limit &- at, end &- at)
        at &+= count
        written &+= count
    }

    mutating func copy(from start: Int, count: Int) -> Range<Int> {
        append(UnsafeBufferPointer(start: input + start, count: count))
    }

    mutating func append(_ bytes: UnsafeBufferPointer<UInt8>) -> Range<Int> {
        let start = written
        if let base = bytes.baseAddress { (output + start).update(from: base, count: bytes.count) }
        written += bytes.count
        return start..<written
    }
}
