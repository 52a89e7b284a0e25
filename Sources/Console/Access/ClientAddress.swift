import Hummingbird
import NIOCore
import Vocabulary

/// A host and an optional port, as in `Host` (RFC 9110 section 7.2) and proxies' headers; an IPv6 address is in
/// brackets.
struct HostAndPort {
    /// The host; an address without brackets.
    let host: Substring
    let isBracketed: Bool

    /// Whether it could be the name of a host: letters, digits, `-`, `.` and `_`.
    var isName: Bool { host.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "-._".contains($0)) } }

    /// Parses a text; nil if anything but a port follows the host.
    init?(_ text: Substring) {
        let rest: Substring
        isBracketed = text.hasPrefix("[")
        if isBracketed {
            guard let end = text.firstIndex(of: "]") else { return nil }
            host = text[text.index(after: text.startIndex)..<end]
            rest = text[text.index(after: end)...]
        } else {
            host = text.prefix { $0 != ":" }
            rest = text[host.endIndex...]
        }
        let port = rest.dropFirst().utf8
        let isPort = rest.first == ":" && (1...5).contains(port.count) && port.allSatisfy { (0x30...0x39).contains($0) }
        guard !host.isEmpty, rest.isEmpty || isPort else { return nil }
    }
}

struct ClientAddress: Sendable {
    /// The address; nil if there is none, as for a Unix socket.
    let address: NetworkAddress?

    init(_ peer: SocketAddress?) {
        let text = peer?.ipAddress.map { $0.prefix { $0 != "%" } }
        let address = text.flatMap { NetworkAddress(String($0)) }
        // An IPv4 client of a dual-stack socket.
        self.address = address?.mappedIPv4 ?? address
    }

    private init(_ address: NetworkAddress) { self.address = address }

    /// The client that a trusted proxy names: the last address, which the proxy itself has added.
    func behindProxy(_ request: Request) -> ClientAddress {
        let list = request.headers[values: .forwardedFor].joined(separator: ",")
        let last = list.split(separator: ",").last.map { $0.trimmingPrefix { $0 == " " } }
        return last.flatMap(Self.address).map { ClientAddress($0.mappedIPv4 ?? $0) } ?? self
    }

    /// Parses an address as proxies write it: some add the client's port, and put IPv6 in brackets (RFC 7239 section
    /// 6).
    private static func address(_ text: Substring) -> NetworkAddress? {
        var text = text[...]
        while text.last == " " || text.last == "\t" { text.removeLast() }
        if let address = NetworkAddress(String(text)) { return address }
        guard let host = HostAndPort(text)?.host else { return nil }
        return NetworkAddress(String(host))
    }

    /// The key that limits count by: the address, or its IPv6 /64 network, which one client has to itself.
    var key: String {
        guard let address else { return "local" }
        return address.bytes.count == 4
            ? address.description : address.bytes.prefix(8).map(String.init).joined(separator: ".")
    }
}
