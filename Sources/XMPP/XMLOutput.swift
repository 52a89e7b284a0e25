import XMLWire

/// Writing XML by hand.
extension [UInt8] {
    /// Appends constant XML as it stands.
    mutating func append(xml text: StaticString) {
        text.withUTF8Buffer { append(contentsOf: $0) }
    }

    /// Appends text escaped for character data and attribute values, without what XML 1.0 can't hold; tab, line feed
    /// and carriage return become references, so that attribute normalisation does not change them.
    mutating func append(escaping text: some Sequence<UInt8>) {
        for byte in text {
            if let replacement = XMLEscape.replacement(for: byte) { append(xml: replacement) } else { append(byte) }
        }
    }
}

extension String {
    /// The text escaped as by ``Swift/Array/append(escaping:)``.
    var xmlEscaped: String {
        var bytes: [UInt8] = []
        bytes.append(escaping: utf8)
        return String(decoding: bytes, as: UTF8.self)
    }
}

extension Collection<UInt8> {
    /// The number that up to `most` decimal digits spell; nil for anything else.
    func decimal(most: Int) -> Int? {
        guard (1...most).contains(count), allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        return Int(String(decoding: self, as: UTF8.self))
    }
}

extension Stanza {
    /// Whether it names no sender, or one of whom this is true.
    func isFrom(nobodyOr isWanted: (JID) -> Bool) -> Bool {
        guard let from = attribute("from", of: 0) else { return true }
        return JID(string(from)).map(isWanted) ?? false
    }

    /// Whether it is the result of our query of this id, and not an error; nil if it is no answer to that.
    func isResult(of id: String) -> Bool? {
        guard element(0, is: "iq", in: XMLNamespace.client), let given = attribute("id", of: 0),
            bytes[given].elementsEqual(id.utf8), let type = attribute("type", of: 0)
        else { return nil }
        return equals(type, "result") ? true : equals(type, "error") ? false : nil
    }

    /// The first defined condition among an element's children of this namespace; nil if there is none.
    func condition<Condition: RawRepresentable<String>>(of element: Int = 0, in namespace: StaticString) -> Condition? {
        for child in children(of: element) where equals(elements[child].namespace, namespace) {
            if let known = Condition(rawValue: string(elements[child].name)) { return known }
        }
        return nil
    }
}

enum XMLEscape {
    /// The replacement for a byte, in character data and in attribute values; nil for the byte itself.
    static func replacement(for byte: UInt8) -> StaticString? {
        switch byte {
        case UInt8(ascii: "<"): "&lt;"
        case UInt8(ascii: ">"): "&gt;"
        case UInt8(ascii: "&"): "&amp;"
        case UInt8(ascii: "\""): "&quot;"
        case UInt8(ascii: "'"): "&#39;"
        case 0x09: "&#9;"
        case 0x0a: "&#10;"
        case 0x0d: "&#13;"
        case 0..<0x20: ""
        default: nil
        }
    }
}
