/// What a connection is negotiated with.
package struct NegotiationConfiguration: Sendable {
    /// How the connection becomes encrypted (configuration key `tls.mode`).
    package enum TLSMode: String, Sendable, CaseIterable {
        /// TLS from the first byte.
        case direct
        /// STARTTLS, required: no offer, no connection.
        case starttls
    }

    /// The XMPP domain: the `to` of the stream header.
    package var domain: String
    /// The localpart of our address: the sender id.
    package var localpart: String
    /// Who we are to the server.
    package var credentials: SASLCredentials
    /// How the connection becomes encrypted.
    package var tlsMode: TLSMode
    /// Which kind of server the peer is; a standard one gets initial presence.
    package var dialect: Dialect
    /// The domain in each of its forms: A-labels and U-labels.
    package var domainSpellings: [String]
    /// Whether the secret itself may be sent (SASL PLAIN).
    package var allowsPlain: Bool
    /// Whether TLS shows a certificate of ours, which may stand for the secret (SASL EXTERNAL).
    package var hasCertificate: Bool
    /// The resource to ask for; nil lets the server choose.
    package var resource: String?
    /// The priority of our presence at a standard server.
    package var priority: Int8
    /// How long a standard server is asked to hold the session of a lost connection; zero for not at all.
    package var resume: Duration
    /// The session of a lost connection that is to go on; nil where there is none.
    package var suspended: SuspendedSession?
    /// The beginning of the ids of our IQs.
    ///
    /// Random for each connection: who can't guess an id can't answer in the server's place.
    package var idPrefix: String
    /// What makes a SASL exchange unlike any other: 16 random bytes or more, new for each connection.
    package var nonce: [UInt8]

    /// The configuration of one connection; without `allowsPlain` the secret itself goes to a CCS alone.
    package init(
        domain: String,
        localpart: String,
        credentials: SASLCredentials,
        tlsMode: TLSMode = .direct,
        dialect: Dialect = .ccs,
        domainSpellings: [String]? = nil,
        allowsPlain: Bool? = nil,
        hasCertificate: Bool = false,
        resource: String? = nil,
        priority: Int8 = 0,
        resume: Duration = .zero,
        suspended: SuspendedSession? = nil,
        idPrefix: String,
        nonce: [UInt8]
    ) {
        self.domain = domain
        self.localpart = localpart
        self.credentials = credentials
        self.tlsMode = tlsMode
        self.dialect = dialect
        self.domainSpellings = domainSpellings ?? [domain]
        self.allowsPlain = allowsPlain ?? (dialect == .ccs)
        self.hasCertificate = hasCertificate
        self.resource = resource
        self.priority = priority
        self.resume = resume
        self.suspended = suspended
        self.idPrefix = idPrefix
        self.nonce = nonce
    }
}

/// A session whose connection was lost, and which the server holds.
package struct SuspendedSession: Sendable, Equatable {
    /// Our address.
    package var address: JID
    /// The counts.
    package var management: StreamManagement

    /// A session to be resumed.
    package init(address: JID, management: StreamManagement) {
        self.address = address
        self.management = management
    }
}

/// A stream that is ready for stanzas.
package struct BoundStream: Sendable, Equatable {
    /// The address the server has given us.
    package var address: JID
    /// What to send first: a session request where the server wants one, then, to a standard server, the request for stream
    /// management where it is offered, and presence.
    package var greeting: [UInt8]
    /// What is known of the server's stream management.
    package var management = StreamManagement.Offer.unused
    /// The longest stanza that the server says it takes, in bytes (XEP-0478); nil where it says nothing.
    package var stanzaLimit: Int?
    /// How long the server says it lets a stream be idle (XEP-0478); nil where it says nothing.
    package var idleLimit: Duration?
    /// The stream management that goes on from a lost connection (XEP-0198 section 5); nil on a new session.
    package var resumed: StreamManagement?
}
