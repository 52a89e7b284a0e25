package import NIOCore
import XMPP

package struct ServerTarget: Sendable {
    /// How the place was found.
    package enum Origin: Sendable, Equatable {
        case configured
        /// A service record of the domain (RFC 2782), by the record's name.
        case service(String)
        /// The domain has no service records: it is the host itself (RFC 6120 section 3.2.2).
        case domain
    }

    /// A host's name in ASCII, or an IP address.
    package var host: String
    package var port: Int
    package var security: SenderSettings.Security
    package var origin: Origin

    package var isDirect: Bool { security.mode == .direct }
}

/// The server that a connection has reached, for the log and for `check`.
package struct ReachedServer: Sendable {
    package var target: ServerTarget
    /// The host's address that answered first; nil if the channel has none.
    package var address: SocketAddress?

    /// The place, how TLS begins, and how it was found, in a few words.
    package var summary: String {
        var text = "\(target.host) port \(target.port)"
        if let ip = address?.ipAddress, ip != target.host { text += " (\(ip))" }
        switch target.security.mode {
        case .direct: text += ", TLS from the first byte"
        case .starttls: text += ", STARTTLS"
        case .none: text += ", without TLS"
        }
        switch target.origin {
        case .configured: return text
        case .service(let name): return text + ", found by the records of \(name)"
        case .domain: return text + ", the domain itself, which has no service records"
        }
    }
}
