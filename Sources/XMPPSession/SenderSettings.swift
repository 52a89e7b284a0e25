package import NIOCore
package import NIOPosix
import Synchronization
package import TLSWire
package import Vocabulary
package import XMLWire
package import XMPP

/// The settings of a sender's connections, made once at the worker's start.
package struct SenderSettings: Sendable {
    /// How the transport gets its TLS.
    package enum Security: Sendable {
        /// TLS from the first byte.
        case direct(TLSContext)
        /// `<starttls/>` inside the stream; if the server doesn't offer it, there is no connection.
        case startTLS(TLSContext)
        /// None, and only if the connected address is in one of these networks.
        case clear(ClearNetworks)
    }

    /// The sender's index in the configuration, as in ``IncomingMessage/sender`` and the metrics.
    package var index: Int
    /// The sender id: SASL's user, and part of every message's key.
    package var senderID: String
    /// The host to connect to; the domain if ``discovery`` finds the hosts.
    package var host: String
    /// The TCP port to connect to; unused with ``discovery``.
    package var port: Int
    /// The XMPP domain: the stream's `to`, and the domain of our JID; with ``XMPP/Dialect/component`` the component's.
    package var domain: String
    /// The domain in each of its forms (RFC 7622 section 3.2.1): a server may return any.
    package var domainSpellings: [String]
    /// How many streams to keep open.
    package var connections: Int
    /// TLS with its trust and host name; with ``discovery`` each place has its own.
    package var security: Security
    /// How to find the server; nil if ``host`` and ``port`` are given.
    package var discovery: ServerDiscovery?
    package var dialect: Dialect
    /// The user name for SASL.
    package var username: String
    /// Whether the secret itself may be sent (SASL PLAIN); by default only to a CCS, whose protocol has nothing else.
    package var allowsPlain: Bool
    /// The seconds from the worker's start until our client certificate expires; nil if there is none.
    package var certificateEnd: Int?
    /// The most unacked messages that the peer allows on one connection.
    package var window: Int
    package var idScope: IDScope
    /// The container of messages, and how they are answered.
    package var payload = Payload.gcm
    /// Stanza senders that are accepted as the CCS, besides the built-in ones.
    package var trustedFrom: [String]
    /// How long after the peer's last sign of life it is pinged.
    package var keepaliveInterval: Duration
    /// The time limit for the answer to a ping, and for the peer to accept a write.
    package var keepaliveTimeout: Duration
    /// How the streams present themselves, and where they may be redirected.
    package var stream = StreamSettings()
    /// The limits of the peer's input.
    package var limits: StreamLimits
    /// The time limit of TCP connect.
    package var connectTimeout = TimeAmount.seconds(10)
    /// The time limit from there to the bound stream.
    package var negotiationTimeout = TimeAmount.seconds(30)
    /// The time after which no further place of a server is tried.
    var findingTimeout: TimeAmount { connectTimeout * 3 }
    /// The time limit from the start to the bound stream.
    var openingTimeout: TimeAmount {
        guard discovery != nil else { return connectTimeout + negotiationTimeout }
        return TimeAmount(ServiceLookup.timeout) + findingTimeout + connectTimeout + negotiationTimeout
    }
    /// Reads the secret each time it is needed, so that a rotated file takes effect at the next connection.
    package var secret: @Sendable () throws -> [UInt8]
    /// Resolves the host; nil for the system's resolver, another one for tests.
    package var resolver: (any Resolver & Sendable)?
    /// Computes and caches the keys of SCRAM.
    package var keys = KeyDeriver()
    /// Whether the operator has been warned that the server has no stream management.
    let managementWarning = OnceFlag()

    package init(
        index: Int,
        senderID: String,
        host: String,
        port: Int,
        domain: String,
        connections: Int,
        security: Security,
        dialect: Dialect,
        username: String,
        window: Int,
        idScope: IDScope,
        trustedFrom: [String],
        keepaliveInterval: Duration,
        keepaliveTimeout: Duration,
        limits: StreamLimits,
        secret: @escaping @Sendable () throws -> [UInt8]
    ) {
        self.index = index
        self.senderID = senderID
        self.host = host
        self.port = port
        self.domain = domain
        domainSpellings = [domain]
        self.connections = connections
        self.security = security
        self.dialect = dialect
        self.username = username
        allowsPlain = dialect == .ccs
        self.window = window
        self.idScope = idScope
        self.trustedFrom = trustedFrom
        self.keepaliveInterval = keepaliveInterval
        self.keepaliveTimeout = keepaliveTimeout
        self.limits = limits
        self.secret = secret
    }
}

extension SenderSettings {
    /// These settings with another host, if given, that `server` named; TLS and the certificate's required name stay.
    func redirected(_ place: (host: String, port: Int?)?, by server: ReachedServer? = nil) -> SenderSettings {
        guard let place else { return self }
        var settings = self
        settings.host = place.host
        settings.port = place.port ?? server?.target.port ?? port
        settings.security = server?.target.security ?? security
        settings.discovery = nil
        return settings
    }
}

/// Settings shared by the parts of a connection, and by all of a sender's connections that bind the same resource.
///
/// They take some hundred bytes, and the parts live as long as the connection.
package final class SharedSettings: Sendable {
    package let value: SenderSettings

    package init(_ value: SenderSettings) { self.value = value }
}

final class OnceFlag: Sendable {
    private let isUsed = Atomic(false)

    /// True for exactly one caller.
    func isFirst() -> Bool { !isUsed.exchange(true, ordering: .relaxed) }
}
