import Vocabulary

/// Searches a quarantined stanza for a text in any encoding.
///
/// A quarantined stanza may be anything, so nothing is parsed: XML's and JSON's escapes are undone wherever they seem
/// to occur, and the text is searched for before, in between, and after.
package enum StanzaText {
    /// Whether the stanza holds the text: as bytes, or with XML's references, split by CDATA, or with JSON's escapes.
    ///
    /// A token may be an address (`fallback.from: sender`), which is short: a text with an `@` counts only as a whole
    /// address, with or without a resource, not as part of another.
    package static func holds(_ text: [UInt8], _ stanza: [UInt8]) -> Bool {
        guard !text.isEmpty else { return false }
        if find(text, stanza) { return true }
        let characters = stanza.contains(UInt8(ascii: "&")) || find(openCDATA, stanza) ? undo(stanza, xmlUnit) : stanza
        if find(text, characters) { return true }
        guard characters.contains(UInt8(ascii: "\\")) else { return false }
        return find(text, undo(characters, jsonUnit))
    }

    private static let openCDATA = [UInt8]("<![CDATA[".utf8)
    private static let closeCDATA = [UInt8]("]]>".utf8)

    private static func find(_ text: [UInt8], _ stanza: [UInt8]) -> Bool {
        guard stanza.count >= text.count, let first = text.first else { return false }
        let isAddress = text.contains(UInt8(ascii: "@"))
        return stanza.withUnsafeBufferPointer { stanza in
            text.withUnsafeBufferPointer { text in
                (0...stanza.count - text.count).contains { start in
                    let range = start..<start + text.count
                    guard stanza[start] == first, stanza[range].elementsEqual(text) else { return false }
                    return !isAddress || isWhole(range, stanza)
                }
            }
        }
    }

    /// Whether an address found there is not part of a longer one.
    private static func isWhole(_ range: Range<Int>, _ stanza: UnsafeBufferPointer<UInt8>) -> Bool {
        if range.lowerBound > 0 {
            // Characters that no localpart holds (RFC 7622 section 3.3.1).
            let before = stanza[range.lowerBound - 1]
            guard before <= 0x20 || "\"&'/:<>@".utf8.contains(before) else { return false }
        }
        let after = stanza[range.upperBound...]
        guard let next = after.first else { return true }
        return !(isDomain(next) || next == UInt8(ascii: ".") && after.dropFirst().first.map(isDomain) == true)
    }

    /// Whether a byte can be part of a domain's label.
    private static func isDomain(_ byte: UInt8) -> Bool {
        byte.isLetterOrDigit || byte == UInt8(ascii: "-") || byte >= 0x80
    }

    /// Bytes, and the length of the escape that stands for them.
    private typealias Unit = (bytes: [UInt8], length: Int)

    /// Replaces each escape that `unit` finds at the start of the rest.
    private static func undo(_ bytes: [UInt8], _ unit: (ArraySlice<UInt8>) -> Unit?) -> [UInt8] {
        var plain: [UInt8] = []
        plain.reserveCapacity(bytes.count)
        var rest = bytes[...]
        while let byte = rest.first {
            if let (replaced, length) = unit(rest) {
                plain += replaced
                rest = rest.dropFirst(length)
            } else {
                plain.append(byte)
                rest = rest.dropFirst()
            }
        }
        return plain
    }

    private static func xmlUnit(_ rest: ArraySlice<UInt8>) -> Unit? {
        if rest.starts(with: openCDATA) { return ([], openCDATA.count) }
        if rest.starts(with: closeCDATA) { return ([], closeCDATA.count) }
        return rest.first == UInt8(ascii: "&") ? reference(rest) : nil
    }

    /// The bytes and the length of the reference at the start.
    private static func reference(_ bytes: ArraySlice<UInt8>) -> Unit? {
        guard let end = bytes.prefix(12).firstIndex(of: UInt8(ascii: ";")) else { return nil }
        let name = String(decoding: bytes[(bytes.startIndex + 1)..<end], as: UTF8.self)
        let length = end - bytes.startIndex + 1
        let named = ["lt": "<", "gt": ">", "amp": "&", "quot": "\"", "apos": "'"]
        if let text = named[name] { return ([UInt8](text.utf8), length) }
        guard name.hasPrefix("#") else { return nil }
        let isHex = name.hasPrefix("#x")
        guard let code = UInt32(name.dropFirst(isHex ? 2 : 1), radix: isHex ? 16 : 10),
            let scalar = Unicode.Scalar(code)
        else { return nil }
        return ([UInt8](String(Character(scalar)).utf8), length)
    }

    private static let shortEscapes: [UInt8: UInt8] = [
        UInt8(ascii: "b"): 8, UInt8(ascii: "f"): 12, UInt8(ascii: "n"): 10, UInt8(ascii: "r"): 13,
        UInt8(ascii: "t"): 9, UInt8(ascii: "/"): UInt8(ascii: "/"), UInt8(ascii: "\\"): UInt8(ascii: "\\"),
        UInt8(ascii: "\""): UInt8(ascii: "\""),
    ]

    private static func jsonUnit(_ rest: ArraySlice<UInt8>) -> Unit? {
        guard rest.first == UInt8(ascii: "\\"), let next = rest.dropFirst().first else { return nil }
        if let character = shortEscapes[next] { return ([character], 2) }
        guard let unit = codeUnit(rest) else { return nil }
        let low = codeUnit(rest.dropFirst(6))
        let isPair = UTF16.isLeadSurrogate(unit) && low.map(UTF16.isTrailSurrogate) == true
        let text = String(decoding: isPair ? [unit, low ?? 0] : [unit], as: UTF16.self)
        return ([UInt8](text.utf8), isPair ? 12 : 6)
    }

    /// The code unit of a `\uXXXX` escape at the start.
    private static func codeUnit(_ bytes: ArraySlice<UInt8>) -> UInt16? {
        guard bytes.starts(with: [UInt8(ascii: "\\"), UInt8(ascii: "u")]), bytes.count >= 6 else { return nil }
        return UInt16(String(decoding: bytes.dropFirst(2).prefix(4), as: UTF8.self), radix: 16)
    }
}
