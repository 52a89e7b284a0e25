import Vocabulary

/// The URL of a webhook, parsed once and strictly, so that every part of the program sees the same host.
struct WebhookEndpoint: Sendable, Hashable {
    let isPlain: Bool
    /// The host in lower case: a name, or an address without brackets.
    let host: String
    /// The port of an https endpoint; nil for http.
    let tlsPort: Int?
    let address: NetworkAddress?
    let url: String

    /// Parses an `http` or `https` URL.
    ///
    /// - Returns: nil for a URL with credentials, a fragment, or a host of other than letters, digits, `-`, `_` and `.`
    ///   (international names use their `xn--` form) or an address.
    init?(_ text: String) {
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
        var target = String(rest.dropFirst(authority.count))
        if !target.hasPrefix("/") { target = "/" + target }
        let port: Substring
        if authority.hasPrefix("[") {
            let end = authority.firstIndex(of: "]") ?? authority.startIndex
            host = authority[
                authority.index(after: authority.startIndex)..<max(end, authority.index(after: authority.startIndex))
            ].lowercased()
            address = NetworkAddress(host)
            guard address?.bytes.count == 16 else { return nil }
            port = authority[authority.index(after: end)...]
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
        tlsPort = isPlain ? nil : Int(port.dropFirst()) ?? 443
        let bracketed = host.contains(":") ? "[\(host)]" : host
        url = "\(isPlain ? "http" : "https")://\(bracketed)\(port)\(target)"
    }
}
