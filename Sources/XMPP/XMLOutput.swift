/// Writing XML by hand: escaping, attributes and elements.
extension [UInt8] {
    /// Appends constant XML as it stands.
    mutating func append(xml text: StaticString) {
        text.withUTF8Buffer { append(contentsOf: $0) }
    }

    /// Appends text escaped for character data and for an attribute value in either kind of quotes.
    ///
    /// Characters that XML 1.0 can't hold are left out; tab, line feed and carriage return become references, so that
    /// attribute normalisation does not change them.
    mutating func append(escaping text: some Sequence<UInt8>) {
        for byte in text {
            if let replacement = XMLEscape.replacement(for: byte) { append(xml: replacement) } else { append(byte) }
        }
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
