/// Masks registration tokens in a stanza that could not be accepted as a message.
///
/// The stanza is read as the worker's own parsers read it: the text of each element, with references and CDATA sections
/// resolved, is JSON, whose token members are masked. Text that is not JSON may hold a token anywhere and is hidden
/// whole, as is a stanza whose XML can't be read. In tags, what looks like a token is masked.
package enum StanzaMask {
    static let hiddenText = "(hidden: not JSON)"
    static let hiddenStanza = "(hidden: not an XML element)"

    /// Masks the tokens of a stanza as received.
    ///
    /// - Returns: The stanza with `"(masked)"` for each value that may be a token; everything else byte for byte.
    package static func mask(_ stanza: [UInt8]) -> [UInt8] {
        guard !stanza.isEmpty else { return [] }
        var reader = StanzaReader(stanza)
        return reader.masked() ?? Array(hiddenStanza.utf8)
    }
}

/// Walks over a stanza's markup and masks the text between tags.
private struct StanzaReader {
    private let bytes: [UInt8]
    private var place = 0
    private var output: [UInt8] = []
    /// Where the text being read begins.
    private var textStart = 0
    /// That text with references and CDATA sections resolved.
    private var text: [UInt8] = []
    /// The offset in the stanza of each of its bytes.
    private var origins: [Int32] = []

    init(_ bytes: [UInt8]) {
        self.bytes = bytes
        output.reserveCapacity(bytes.count)
    }

    /// The stanza without tokens; nil if its markup can't be read.
    mutating func masked() -> [UInt8]? {
        while place < bytes.count {
            switch bytes[place] {
            case UInt8(ascii: "<"):
                if isAt("<![CDATA[") {
                    guard takeSection() else { return nil }
                } else {
                    let end = closeText()
                    guard let next = tagEnd() else { return nil }
                    // No token belongs here; what looks like one is masked all the same.
                    output += TokenText.maskRuns(Array(bytes[end..<next]))
                    place = next
                    textStart = next
                }
            case UInt8(ascii: "&"): guard takeReference() else { return nil }
            default: take(bytes[place])
            }
        }
        // Only white space may follow the last tag.
        guard textStart > 0, text.allSatisfy(isSpace) else { return nil }
        _ = closeText()
        return output
    }

    private func isAt(_ start: StaticString) -> Bool {
        start.withUTF8Buffer { bytes[place...].starts(with: $0) }
    }

    private func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D }

    private mutating func take(_ byte: UInt8) {
        text.append(byte)
        origins.append(Int32(clamping: place))
        place += 1
    }

    /// Reads a CDATA section; false if it has no end.
    private mutating func takeSection() -> Bool {
        place += 9
        while place < bytes.count {
            if isAt("]]>") {
                place += 3
                return true
            }
            take(bytes[place])
        }
        return false
    }

    /// Reads a character reference (XML 1.0, section 4.1); false for an invalid one, or an entity that only a DTD
    /// defines.
    private mutating func takeReference() -> Bool {
        guard let end = bytes[place...].prefix(32).firstIndex(of: UInt8(ascii: ";")) else { return false }
        let name = bytes[(place + 1)..<end]
        guard let scalar = Self.scalar(of: name) else { return false }
        for byte in String(Character(scalar)).utf8 {
            text.append(byte)
            origins.append(Int32(clamping: place))
        }
        place = end + 1
        return true
    }

    private static func scalar(of name: ArraySlice<UInt8>) -> Unicode.Scalar? {
        switch String(decoding: name, as: UTF8.self) {
        case "quot": return "\""
        case "amp": return "&"
        case "apos": return "'"
        case "lt": return "<"
        case "gt": return ">"
        case let text:
            guard text.hasPrefix("#") else { return nil }
            let isHex = text.dropFirst().first == "x"
            let digits = text.dropFirst(isHex ? 2 : 1)
            guard !digits.isEmpty, digits.allSatisfy(\.isHexDigit) else { return nil }
            return UInt32(digits, radix: isHex ? 16 : 10).flatMap(Unicode.Scalar.init)
        }
    }

    /// Where the tag that begins here ends; nil for what is not a tag, such as a comment or a declaration.
    private func tagEnd() -> Int? {
        guard place + 1 < bytes.count, bytes[place + 1] != UInt8(ascii: "!"), bytes[place + 1] != UInt8(ascii: "?")
        else {
            return nil
        }
        var quote: UInt8?
        for index in place..<bytes.count {
            switch bytes[index] {
            case UInt8(ascii: "\""), UInt8(ascii: "'"):
                if quote == nil { quote = bytes[index] } else if quote == bytes[index] { quote = nil }
            case UInt8(ascii: ">") where quote == nil: return index + 1
            default: break
            }
        }
        return nil
    }

    /// Writes the text read so far, masked, and returns where it ended.
    private mutating func closeText() -> Int {
        defer { (text, origins) = ([], []) }
        if text.allSatisfy(isSpace) {
            output += bytes[textStart..<place]
        } else if let masked = JSONMask.ranges(in: text) {
            var copied = textStart
            for range in masked {
                output += bytes[copied..<Int(origins[range.lowerBound])]
                output += "\"(masked)\"".utf8
                copied = range.upperBound < origins.count ? Int(origins[range.upperBound]) : place
            }
            output += bytes[copied..<place]
        } else {
            output += StanzaMask.hiddenText.utf8
        }
        return place
    }
}
