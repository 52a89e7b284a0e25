import ConfigurationKeys
import Foundation

/// A domain name in both forms (RFC 5890).
///
/// A-labels (`xn--bcher-kva.example`) serve DNS, TLS and certificates, U-labels (`bücher.example`) XMPP addresses (RFC
/// 7622 section 3.2). Foundation converts to ASCII, by UTS #46 without the transitional rules, so that `straße` and
/// `strasse` are two names, as in IDNA2008; unlike glibc's conversion (libidn2) it needs no library at run time. The
/// way back is accepted only if it converts to the same name again.
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
            // Only a plain label, as an encoded host that is none would end the process.
            guard label.hasPrefix("xn--"), isHostName(String(label)) else { return String(label) }
            var components = URLComponents()
            components.encodedHost = String(label)
            guard let decoded = components.host, Self.ascii(decoded) == String(label) else { return String(label) }
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
