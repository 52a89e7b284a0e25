import Hummingbird
import NIOCore
import Vocabulary

/// Whether a text is an IP address.
enum NetworkAddressText {
    static func isAddress(_ text: String) -> Bool { NetworkAddress(text) != nil }
}

/// Who is at the other end of a connection.
struct ClientAddress: Sendable {
    /// The address; nil where there is none, as of a socket in a file system.
    let address: NetworkAddress?

    /// The other end of a connection.
    init(_ peer: SocketAddress?) {
        let text = peer?.ipAddress.map { $0.prefix { $0 != "%" } }
        let address = text.flatMap { NetworkAddress(String($0)) }
        // An IPv4 client of a socket that takes both.
        self.address = address?.mappedIPv4 ?? address
    }

    private init(_ address: NetworkAddress) { self.address = address }

    /// The client that a trusted proxy names: the last address, which the proxy itself has added.
    func behindProxy(_ request: Request) -> ClientAddress {
        let list = request.headers[values: .forwardedFor].joined(separator: ",")
        let last = list.split(separator: ",").last.map { $0.trimmingPrefix { $0 == " " } }
        return last.flatMap { NetworkAddress(String($0)) }.map { ClientAddress($0.mappedIPv4 ?? $0) } ?? self
    }

    /// What limits count by: the address, or an IPv6 network of 64 bits, which one client has for itself.
    var key: String {
        guard let address else { return "local" }
        return address.bytes.count == 4
            ? address.description : address.bytes.prefix(8).map(String.init).joined(separator: ".")
    }
}
