package import Vocabulary

/// A URL of scheme `http` or `https`, parsed once and strictly, so that every part of the program sees the same host.
package struct HTTPEndpoint: Sendable, Hashable {
    package let isPlain: Bool
    /// The host in lower case: a name, or an address without brackets.
    package let host: String
    package let port: Int
    /// The host, unless it is a name.
    package let address: NetworkAddress?
    /// Host and port as in the URL, for the field `Host` (RFC 9110 section 7.2).
    package let authority: String
    /// Path and query (RFC 9112 section 3.2.1).
    package let target: String

    /// The port of an https endpoint; nil for http.
    package var tlsPort: Int? { isPlain ? nil : port }

    package var url: String { "\(isPlain ? "http" : "https")://\(authority)\(target)" }

    /// Parses a URL.
    ///
    /// - Returns: nil for a URL with credentials, a fragment, or a host of other than letters, digits, `-`, `_` and `.`
    ///   (international names use their `xn--` form) or an address.
    package init?(_ text: String) {
        guard text.utf8.allSatisfy({ (0x21...0x7E).contains($0) && $0 != 0x23 && $0 != 0x5C }) else { return nil }
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, parts[1].hasPrefix("//") else { return nil }
        switch parts[0].lowercased() {
        case "https": isPlain = false
        case "http": isPlain = true
        default: return nil
        }
        let rest = parts[1].dropFirst(2)
        let authority = rest.prefix { $0 != "/" && $0 != "?" }
        let target = Self.encoded(rest.dropFirst(authority.count))
        self.target = target.hasPrefix("/") ? target : "/" + target
        let port: Substring
        if authority.hasPrefix("[") {
            let inside = authority.dropFirst().prefix { $0 != "]" }
            host = inside.lowercased()
            address = NetworkAddress(host)
            guard address?.bytes.count == 16, inside.endIndex < authority.endIndex else { return nil }
            port = authority[inside.endIndex...].dropFirst()
        } else {
            let name = authority.prefix { $0 != ":" }
            host = name.lowercased()
            address = NetworkAddress(host)
            let isName = host.utf8.allSatisfy { byte in
                (0x61...0x7A).contains(byte) || (0x30...0x39).contains(byte) || byte == 0x2D || byte == 0x2E
                    || byte == 0x5F
            }
            guard isName, (1...253).contains(host.utf8.count) else { return nil }
            port = authority.dropFirst(name.count)
        }
        guard port.isEmpty || port.hasPrefix(":") && UInt16(port.dropFirst()).map({ $0 > 0 }) == true else {
            return nil
        }
        self.port = Int(port.dropFirst()) ?? (isPlain ? 80 : 443)
        self.authority = (host.contains(":") ? "[\(host)]" : host) + port
    }

    /// Percent-encodes what a target may not hold as it is (RFC 3986 appendix A), as browsers do.
    private static func encoded(_ text: Substring) -> String {
        text.reduce(into: "") { target, character in
            guard "\"<>^`{|}".contains(character), let byte = character.asciiValue else {
                return target.append(character)
            }
            target += "%" + Hex.encode([byte]).uppercased()
        }
    }
}
