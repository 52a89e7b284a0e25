import ConfigurationKeys
import Foundation

/// A domain name in both forms (RFC 5890).
///
/// A-labels (`xn--bcher-kva.example`) serve DNS, TLS and certificates, U-labels (`bücher.example`) XMPP addresses (RFC
/// 7622 section 3.2). Foundation converts to ASCII, by UTS #46 without the transitional rules, so that `straße` and
/// `strasse` are two names, as in IDNA2008; unlike glibc's conversion (libidn2) it needs no library at run time. The
/// way back is Punycode (RFC 3492), accepted only if it converts to the same name again.
enum InternationalDomain {
    /// The name in ASCII, lower case; nil if it is no name.
    static func ascii(_ name: String) -> String? {
        guard !name.utf8.allSatisfy({ $0 < 0x80 }) else { return isHostName(name) ? name.lowercased() : nil }
        // Excludes what a URL gives a meaning, or would decode.
        let isPlain = name.unicodeScalars.allSatisfy { scalar in
            !scalar.isASCII || scalar == "-" || scalar == "." || scalar == "_" || scalar.properties.isAlphabetic
                || ("0"..."9").contains(scalar)
        }
        guard isPlain else { return nil }
        var components = URLComponents()
        components.host = name
        guard let encoded = components.encodedHost, isHostName(encoded) else { return nil }
        return encoded.lowercased()
    }

    /// The name with U-labels instead of A-labels; unchanged without any.
    static func unicode(_ ascii: String) -> String {
        let labels = ascii.split(separator: ".", omittingEmptySubsequences: false).map { label -> String in
            guard label.hasPrefix("xn--") else { return String(label) }
            guard let decoded = Punycode.decode(label.dropFirst(4)), Self.ascii(decoded) == String(label) else {
                return String(label)
            }
            return decoded
        }
        return labels.joined(separator: ".")
    }

    /// Whether a text consists of labels of at most 63 bytes, 253 in all, as in DNS and certificates.
    private static func isHostName(_ name: String) -> Bool {
        let name = name.hasSuffix(".") ? name.dropLast() : name[...]
        let labels = name.split(separator: ".", omittingEmptySubsequences: false)
        return name.utf8.count <= 253
            && labels.allSatisfy { label in
                (1...63).contains(label.utf8.count) && String(label).isAlphanumeric(or: "-_")
            }
    }
}

/// Decodes Punycode (RFC 3492).
enum Punycode {
    /// The text of a label given without `xn--`; nil if it is invalid.
    static func decode(_ label: Substring) -> String? {
        var scalars: [UInt32] = []
        var rest = Array(label.utf8)
        if let delimiter = rest.lastIndex(of: UInt8(ascii: "-")) {
            scalars = rest[..<delimiter].map { UInt32($0) }
            rest.removeFirst(delimiter + 1)
        }
        guard !rest.isEmpty, rest.count + scalars.count <= 59 else { return nil }
        var (code, index, bias) = (128, 0, 72)
        var digits = rest[...]
        while !digits.isEmpty {
            let before = index
            var weight = 1
            for step in sequence(first: 36, next: { $0 + 36 }) {
                guard let byte = digits.popFirst(), let digit = value(of: byte) else { return nil }
                // At most 59 digits of less than 36 each; overflow is checked before it happens.
                guard digit <= (Int(Int32.max) - index) / weight else { return nil }
                index += digit * weight
                let threshold = min(max(step - bias, 1), 26)
                if digit < threshold { break }
                guard weight <= Int(Int32.max) / (36 - threshold) else { return nil }
                weight *= 36 - threshold
            }
            bias = adapted(index - before, scalars.count + 1, isFirst: before == 0)
            code += index / (scalars.count + 1)
            index %= scalars.count + 1
            guard code <= 0x10ffff else { return nil }
            scalars.insert(UInt32(code), at: index)
            index += 1
        }
        var text = String.UnicodeScalarView()
        for scalar in scalars {
            guard let scalar = Unicode.Scalar(scalar) else { return nil }
            text.append(scalar)
        }
        return String(text)
    }

    private static func value(of byte: UInt8) -> Int? {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"): Int(byte - UInt8(ascii: "a"))
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): Int(byte - UInt8(ascii: "A"))
        case UInt8(ascii: "0")...UInt8(ascii: "9"): Int(byte - UInt8(ascii: "0")) + 26
        default: nil
        }
    }

    /// The bias for the next number (RFC 3492 section 6.1).
    private static func adapted(_ difference: Int, _ count: Int, isFirst: Bool) -> Int {
        var difference = isFirst ? difference / 700 : difference / 2
        difference += difference / count
        var bias = 0
        while difference > 455 {
            difference /= 35
            bias += 36
        }
        return bias + 36 * difference / (difference + 38)
    }
}
