/// The settings for negotiating a connection.
package struct NegotiationConfiguration: Sendable {
    /// How the connection becomes encrypted (configuration key `tls.mode`).
    package enum TLSMode: String, Sendable, CaseIterable {
        /// TLS from the first byte.
        case direct
        /// STARTTLS, required: without an offer there is no connection.
        case starttls
    }

    /// The XMPP domain: the `to` of the stream header.
    package var domain: String
    /// The localpart of our address: the sender id.
    package var localpart: String
    /// Who we are to the server.
    package var credentials: SASLCredentials
    package var tlsMode: TLSMode
    /// The kind of server; a standard one gets initial presence.
    package var dialect: Dialect
    /// The domain in each of its forms: A-labels and U-labels.
    package var domainSpellings: [String]
    /// Whether the secret itself may be sent (SASL PLAIN).
    package var allowsPlain: Bool
    /// Whether TLS presents a client certificate, which may replace the secret (SASL EXTERNAL).
    package var hasCertificate: Bool
    /// The resource to request; nil lets the server choose.
    package var resource: String?
    package var priority: Int8
    /// How long a standard server is asked to hold the session of a lost connection; zero for not at all.
    package var resume: Duration
    /// The session to resume; nil if there is none.
    package var suspended: SuspendedSession?
    /// The prefix of the ids of our IQs.
    ///
    /// Random for each connection: only somebody who can guess an id could answer in the server's place.
    package var idPrefix: String
    /// Makes each SASL exchange unique: at least 16 random bytes, new for each connection.
    package var nonce: [UInt8]

    /// The settings of one connection; by default the secret itself may be sent only to a CCS.
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
    package var address: JID
    /// The counts and the server's grant.
    package var management: StreamManagement

    package init(address: JID, management: StreamManagement) {
        self.address = address
        self.management = management
    }
}

/// A stream that is ready for stanzas.
package struct BoundStream: Sendable, Equatable {
    /// The address that the server assigned.
    package var address: JID
    /// The bytes to send first: a session request if the server requires one, then, to a standard server, the request
    /// for stream management if offered, and presence.
    package var greeting: [UInt8]
    package var management = StreamManagement.Offer.unused
    /// The server's limits.
    package var limits = ServerLimits()
    /// Stream management resumed from a lost connection (XEP-0198 section 5); nil on a new session.
    package var resumed: StreamManagement?
}
