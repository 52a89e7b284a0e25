/// Finds the values in a JSON text that may be registration tokens.
///
/// Unlike ``TokenMask``, which knows a text to be valid, it trusts nothing: a text that is not JSON (RFC 8259) has no
/// answer.
struct JSONMask {
    /// Members that hold tokens at any depth.
    private static let names: Set<[UInt8]> = Set(
        ["from", TokenMask.member, "registration_id", "registration_ids", "registration_token"].map { Array($0.utf8) }
    )
    /// The member that holds a token at the top of the CCS envelope.
    private static let envelopeName = Array("to".utf8)
    /// How deep values may nest; no message nests deeper.
    private static let depthLimit = 512

    private let text: [UInt8]
    private var place = 0
    private var found: [Range<Int>] = []
    /// The unescaped content of the last string.
    private var meaning: [UInt8] = []

    private init(_ text: [UInt8]) { self.text = text }

    /// The ranges of the values to be masked, in order; nil if the text is not JSON.
    static func ranges(in text: [UInt8]) -> [Range<Int>]? {
        guard String(validating: text, as: UTF8.self) != nil else { return nil }
        var mask = JSONMask(text)
        mask.skipSpaces()
        guard mask.value(depth: 0, isMasked: false) else { return nil }
        mask.skipSpaces()
        return mask.place == text.count ? mask.found : nil
    }

    private var next: UInt8? { place < text.count ? text[place] : nil }

    private mutating func skipSpaces() {
        while let byte = next, [0x20, 0x09, 0x0A, 0x0D].contains(byte) { place += 1 }
    }

    private mutating func take(_ byte: UInt8) -> Bool {
        guard next == byte else { return false }
        place += 1
        return true
    }

    /// Reads the value at the current position; false if there is none.
    private mutating func value(depth: Int, isMasked: Bool) -> Bool {
        guard depth < Self.depthLimit, let first = next else { return false }
        let (start, count) = (place, found.count)
        var mayHoldToken = isMasked
        switch first {
        case UInt8(ascii: "{"): guard object(depth) else { return false }
        case UInt8(ascii: "["): guard array(depth) else { return false }
        case UInt8(ascii: "\""):
            guard string() else { return false }
            mayHoldToken = mayHoldToken || TokenText.mayHold(meaning)
        case UInt8(ascii: "n"):
            guard word("null") else { return false }
            mayHoldToken = false
        case UInt8(ascii: "t"): guard word("true") else { return false }
        case UInt8(ascii: "f"): guard word("false") else { return false }
        default: guard number() else { return false }
        }
        guard mayHoldToken else { return true }
        // Ranges inside this one are covered by it.
        found.removeSubrange(count...)
        found.append(start..<place)
        return true
    }

    private mutating func object(_ depth: Int) -> Bool {
        place += 1
        skipSpaces()
        if take(UInt8(ascii: "}")) { return true }
        while true {
            let start = place
            guard next == UInt8(ascii: "\""), string() else { return false }
            let name = meaning
            if TokenText.mayHold(name) { found.append(start..<place) }
            skipSpaces()
            guard take(UInt8(ascii: ":")) else { return false }
            skipSpaces()
            let isToken = Self.names.contains(name) || (depth == 0 && name == Self.envelopeName)
            guard value(depth: depth + 1, isMasked: isToken) else { return false }
            skipSpaces()
            if take(UInt8(ascii: "}")) { return true }
            guard take(UInt8(ascii: ",")) else { return false }
            skipSpaces()
        }
    }

    private mutating func array(_ depth: Int) -> Bool {
        place += 1
        skipSpaces()
        if take(UInt8(ascii: "]")) { return true }
        while true {
            guard value(depth: depth + 1, isMasked: false) else { return false }
            skipSpaces()
            if take(UInt8(ascii: "]")) { return true }
            guard take(UInt8(ascii: ",")) else { return false }
            skipSpaces()
        }
    }

    /// Reads a string and its meaning.
    private mutating func string() -> Bool {
        let start = place + 1
        place = start
        while let byte = next {
            place += 1
            switch byte {
            case UInt8(ascii: "\""):
                guard let content = JSONUnescape.content(text[start..<(place - 1)]) else { return false }
                meaning = content
                return true
            case UInt8(ascii: "\\"): place += 1
            case ..<0x20: return false
            default: break
            }
        }
        return false
    }

    private mutating func word(_ word: StaticString) -> Bool {
        let isHere = word.withUTF8Buffer { text[place...].starts(with: $0) }
        place += word.utf8CodeUnitCount
        return isHere
    }

    private mutating func digits() -> Bool {
        let start = place
        while let byte = next, (0x30...0x39).contains(byte) { place += 1 }
        return place > start
    }

    private mutating func number() -> Bool {
        _ = take(UInt8(ascii: "-"))
        if !take(UInt8(ascii: "0")) { guard digits() else { return false } }
        if take(UInt8(ascii: ".")) { guard digits() else { return false } }
        guard next == UInt8(ascii: "e") || next == UInt8(ascii: "E") else { return true }
        place += 1
        if next == UInt8(ascii: "+") || next == UInt8(ascii: "-") { place += 1 }
        return digits()
    }
}

/// Unescapes JSON strings (RFC 8259, section 7).
enum JSONUnescape {
    /// A string's content as UTF-8, with U+FFFD for lone surrogates; nil for an invalid escape.
    static func content(_ text: some Collection<UInt8>) -> [UInt8]? {
        guard text.contains(UInt8(ascii: "\\")) else { return Array(text) }
        var content: [UInt8] = []
        content.reserveCapacity(text.count)
        var rest = text[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "\\") else {
                content.append(byte)
                continue
            }
            guard let kind = rest.popFirst() else { return nil }
            switch kind {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): content.append(kind)
            case UInt8(ascii: "b"): content.append(0x08)
            case UInt8(ascii: "f"): content.append(0x0C)
            case UInt8(ascii: "n"): content.append(0x0A)
            case UInt8(ascii: "r"): content.append(0x0D)
            case UInt8(ascii: "t"): content.append(0x09)
            case UInt8(ascii: "u"):
                guard let unit = unit(&rest) else { return nil }
                content += String(scalar(unit, &rest)).utf8
            default: return nil
            }
        }
        return content
    }

    /// Completes a character from its first code unit, with the other half of the pair if that follows.
    private static func scalar<Rest: Collection<UInt8>>(_ unit: UInt16, _ rest: inout Rest) -> Unicode.Scalar
    where Rest.SubSequence == Rest {
        if let scalar = Unicode.Scalar(unit) { return scalar }
        var ahead = rest
        guard unit < 0xDC00, ahead.popFirst() == UInt8(ascii: "\\"), ahead.popFirst() == UInt8(ascii: "u"),
            let low = self.unit(&ahead), (0xDC00...0xDFFF).contains(low)
        else { return "\u{FFFD}" }
        rest = ahead
        return Unicode.Scalar(0x10000 + (UInt32(unit) - 0xD800) << 10 + (UInt32(low) - 0xDC00)) ?? "\u{FFFD}"
    }

    private static func unit<Rest: Collection<UInt8>>(_ rest: inout Rest) -> UInt16? where Rest.SubSequence == Rest {
        let digits = rest.prefix(4)
        guard digits.count == 4, digits.allSatisfy({ Unicode.Scalar($0).properties.isASCIIHexDigit }) else {
            return nil
        }
        rest = rest.dropFirst(4)
        return UInt16(String(decoding: digits, as: UTF8.self), radix: 16)
    }
}
