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

/// Base64 (RFC 4648 section 4), which SASL wraps its messages in.
enum Base64 {
    /// The padded encoding.
    static func encode(_ bytes: [UInt8]) -> [UInt8] {
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
        var result: [UInt8] = []
        result.reserveCapacity((bytes.count + 2) / 3 * 4)
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let second = start + 1 < bytes.count ? bytes[start + 1] : 0
            let third = start + 2 < bytes.count ? bytes[start + 2] : 0
            let group = UInt32(bytes[start]) << 16 | UInt32(second) << 8 | UInt32(third)
            result.append(alphabet[Int(group >> 18 & 63)])
            result.append(alphabet[Int(group >> 12 & 63)])
            result.append(start + 1 < bytes.count ? alphabet[Int(group >> 6 & 63)] : UInt8(ascii: "="))
            result.append(start + 2 < bytes.count ? alphabet[Int(group & 63)] : UInt8(ascii: "="))
        }
        return result
    }

    /// The bytes of a padded encoding; nil where it is none.
    static func decode(_ text: some Sequence<UInt8>) -> [UInt8]? {
        var result: [UInt8] = []
        var group: UInt32 = 0
        var digits = 0
        var padding = 0
        for byte in text {
            let value: UInt8
            switch byte {
            case UInt8(ascii: "A")...UInt8(ascii: "Z"): value = byte - 65
            case UInt8(ascii: "a")...UInt8(ascii: "z"): value = byte - 71
            case UInt8(ascii: "0")...UInt8(ascii: "9"): value = byte + 4
            case UInt8(ascii: "+"): value = 62
            case UInt8(ascii: "/"): value = 63
            case UInt8(ascii: "="):
                padding += 1
                continue
            default: return nil
            }
            guard padding == 0 else { return nil }
            group = group << 6 | UInt32(value)
            digits += 1
            guard digits % 4 == 0 else { continue }
            result.append(UInt8(truncatingIfNeeded: group >> 16))
            result.append(UInt8(truncatingIfNeeded: group >> 8))
            result.append(UInt8(truncatingIfNeeded: group))
            group = 0
        }
        switch (digits % 4, padding) {
        case (0, 0): break
        case (2, 2) where group & 15 == 0: result.append(UInt8(truncatingIfNeeded: group >> 4))
        case (3, 1) where group & 3 == 0:
            result.append(UInt8(truncatingIfNeeded: group >> 10))
            result.append(UInt8(truncatingIfNeeded: group >> 2))
        default: return nil
        }
        return result
    }
}
