package import NIOCore
package import NIOPosix
import Synchronization
package import TLSWire
import Vocabulary
package import XMLWire
package import XMPP

/// Everything a connection of one sender needs to know.
///
/// Made once, when the worker starts.
package struct SenderSettings: Sendable {
    /// How the transport gets its TLS.
    package enum Security: Sendable {
        /// TLS from the first byte.
        case direct(TLSContext)
        /// `<starttls/>` inside the stream; without an offer there is no connection.
        case startTLS(TLSContext)
        /// None, and only where the address that was connected to is one of these.
        case clear(ClearNetworks)
    }

    /// The sender's place among the configured ones, as ``IncomingMessage/sender`` and the metrics count it.
    package var index: Int
    /// The sender id: SASL's user, and part of every message's key.
    package var senderID: String
    /// The host to connect to; the domain where ``discovery`` finds the hosts.
    package var host: String
    /// The TCP port to connect to; unused with ``discovery``.
    package var port: Int
    /// The XMPP domain: the stream's `to`, and the domain of our JID; with ``XMPP/Dialect/component`` the component's.
    package var domain: String
    /// The domain in each of its forms (RFC 7622 section 3.2.1): a server may return any.
    package var domainSpellings: [String]
    /// How many streams to keep open.
    package var connections: Int
    /// TLS, and the trust and host name behind it; with ``discovery`` what each place says holds instead.
    package var security: Security
    /// How to find the server; nil where ``host`` and ``port`` are given.
    package var discovery: ServerDiscovery?
    /// Which kind of server the peer is.
    package var dialect: Dialect
    /// The user name that SASL is given.
    package var username: String
    /// Whether the secret itself may be sent (SASL PLAIN).
    ///
    /// By default to a CCS alone, whose protocol has nothing else.
    package var allowsPlain: Bool
    /// When our client certificate ends, in seconds from the worker's start; nil where there is none.
    package var certificateEnd: Int?
    /// Unacked messages that the peer allows on one connection.
    package var window: Int
    /// Over what a `message_id` is unique.
    package var idScope: IDScope
    /// What carries the messages, and how they are answered.
    package var payload = Payload.gcm
    /// Stanza senders that are accepted as the CCS, besides the ones that always are.
    package var trustedFrom: [String]
    /// How long after the last proof that the peer hears us it is pinged.
    package var keepaliveInterval: Duration
    /// How long the answer to a ping may take, and how long a write may wait for the peer to take it.
    package var keepaliveTimeout: Duration
    /// How the streams present themselves, and where they may be sent.
    package var stream = StreamSettings()
    /// The bounds of what a peer may send.
    package var limits: StreamLimits
    /// How long TCP may take to connect.
    package var connectTimeout = TimeAmount.seconds(10)
    /// How long it may take from there to the bound stream.
    package var negotiationTimeout = TimeAmount.seconds(30)
    /// After how long no further place of a server is tried.
    var findingTimeout: TimeAmount { connectTimeout * 3 }
    /// How long it may take from the beginning to the bound stream.
    var openingTimeout: TimeAmount {
        guard discovery != nil else { return connectTimeout + negotiationTimeout }
        return TimeAmount(ServiceLookup.timeout) + findingTimeout + connectTimeout + negotiationTimeout
    }
    /// Reads the secret, each time it is needed, so that a rotated file takes effect at the next connection.
    package var secret: @Sendable () throws -> [UInt8]
    /// Finds the host's addresses; nil for the system's resolver, another one for tests.
    package var resolver: (any Resolver & Sendable)?
    /// Computes and remembers the keys of SCRAM.
    package var keys = KeyDeriver()
    /// Whether the operator has been warned that the server has no stream management.
    let managementWarning = OnceFlag()

    /// The settings of one sender; see the properties.
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
    /// The same, with a connection to another host: TLS, and what its certificate must be for, stay as they are.
    ///
    /// - Parameters:
    ///   - place: The other host; nil for none.
    ///   - server: Who named it; TLS begins there as it did here.
    /// - Returns: These settings where there is no other host.
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

/// Settings that the parts of a connection share, and all connections of a sender where they bind no resource of their own.
///
/// They take some hundred bytes, and the parts live as long as the connection.
package final class SharedSettings: Sendable {
    /// The settings.
    package let value: SenderSettings

    package init(_ value: SenderSettings) { self.value = value }
}

/// True for exactly one caller.
final class OnceFlag: Sendable {
    private let isUsed = Atomic(false)

    /// Whether this is the first call.
    func isFirst() -> Bool { !isUsed.exchange(true, ordering: .relaxed) }
}
