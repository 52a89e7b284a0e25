/// Writing XML: escaping, and attributes and elements by hand.
///
/// What we send is a dozen fixed forms; a tree and a serializer would only hide them.
extension [UInt8] {
    /// Appends constant XML as it stands.
    mutating func append(xml text: StaticString) {
        text.withUTF8Buffer { append(contentsOf: $0) }
    }

    /// Appends text escaped for character data and for an attribute value in either kind of quotes.
    ///
    /// Characters that XML 1.0 can't hold are left out; tab, line feed and carriage return become references, so that no
    /// parser's attribute normalisation changes them.
    mutating func append(escaping text: some Sequence<UInt8>) {
        for byte in text {
            switch byte {
            case UInt8(ascii: "<"): append(xml: "&lt;")
            case UInt8(ascii: ">"): append(xml: "&gt;")
            case UInt8(ascii: "&"): append(xml: "&amp;")
            case UInt8(ascii: "\""): append(xml: "&quot;")
            case UInt8(ascii: "'"): append(xml: "&#39;")
            case 0x09: append(xml: "&#9;")
            case 0x0a: append(xml: "&#10;")
            case 0x0d: append(xml: "&#13;")
            case 0..<0x20: continue
            default: append(byte)
            }
        }
    }
}
