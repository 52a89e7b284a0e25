import CGlibc
import Glibc

/// The name servers asked for service records.
///
/// glibc's resolver talks to them: it reads /etc/resolv.conf, falls back to TCP, and is what the rest of the machine
/// uses. ``ServiceAnswer`` parses the answers.
package struct NameServers: Sendable, Equatable {
    /// The IPv4 address and port of the only server to ask; nil for the system's servers.
    private var server: (address: UInt32, port: UInt16)?

    /// The servers of /etc/resolv.conf, read anew for each question.
    package static let system = NameServers(server: nil)

    private init(server: (address: UInt32, port: UInt16)?) { self.server = server }

    /// A single server's IPv4 address in dotted form, and its port for UDP and TCP.
    package init?(address: String, port: UInt16) {
        var number = in_addr()
        guard inet_pton(AF_INET, address, &number) == 1 else { return nil }
        server = (number.s_addr, port)
    }

    /// Asks for the SRV records of a name such as `_xmpp-client._tcp.example.org`; blocks the thread.
    package func services(_ name: String) throws(DNSError) -> ServiceAnswer {
        guard let question = DNSName(name) else { throw .badName }
        // The maximum length of a message.
        var length: Int32 = 0
        let answer = [UInt8](unsafeUninitializedCapacity: 65_536) { buffer, count in
            length = ask(name, into: buffer)
            count = min(max(Int(length), 0), buffer.count)
        }
        guard length >= 0 else { throw .noAnswer }
        guard length <= 65_536 else { throw .truncated }
        return try ServiceAnswer(answer[...], to: question)
    }

    private func ask(_ name: String, into buffer: UnsafeMutableBufferPointer<UInt8>) -> Int32 {
        // A final dot keeps the resolver from appending search domains.
        let name = name.hasSuffix(".") ? name : name + "."
        let size = Int32(buffer.count)
        guard let server else { return upstream_dns_ask(name, 33, nil, buffer.baseAddress, size) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = server.port.bigEndian
        address.sin_addr.s_addr = server.address
        return upstream_dns_ask(name, 33, &address, buffer.baseAddress, size)
    }

    package static func == (left: NameServers, right: NameServers) -> Bool {
        left.server?.address == right.server?.address && left.server?.port == right.server?.port
    }
}
