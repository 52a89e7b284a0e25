package import NIOCore
package import TLSWire

/// How an emulator listens, whom it lets in, and what it does to them.
package struct EmulatorConfiguration: Sendable {
    /// How connections are secured.
    package enum Security: Sendable, Hashable {
        /// TLS from the first byte, as the hosted service had it.
        case direct
        /// Plain text, then STARTTLS, without which nobody signs in.
        case startTLS
        /// Plain text only; for tests of clients that must refuse it.
        case none
    }

    /// The certificate shown.
    package enum Identity: Sendable {
        /// Issued for these DNS names and addresses by an authority made for the run.
        case generated(names: [String], addresses: [String])
        /// PEM files: the certificate with its chain, and its key.
        case files(certificate: String, key: String)
        /// Anything that TLSWire can serve.
        case server(TLSServerConfiguration)
    }

    /// Who may sign in.
    package enum Credentials: Sendable {
        /// Any sender id with any secret.
        case any
        /// These sender ids with their secrets.
        case secrets([String: String])
    }

    /// The address to listen on.
    package var host = "127.0.0.1"
    /// The port; 0 takes a free one.
    package var port = 0
    /// How connections are secured.
    package var security = Security.direct
    /// The certificate shown.
    package var identity = Identity.generated(names: ["localhost"], addresses: ["127.0.0.1", "::1"])
    /// Who may sign in, as a JID (`SENDER@anything`) or as the bare sender id.
    package var credentials = Credentials.any
    /// The domain part of the emulator's addresses.
    package var domain = "gcm.googleapis.com"
    /// The `from` of upstream stanzas; nil for none.
    package var stanzaFrom: String? = "devices@gcm.googleapis.com"
    /// Unacked messages a connection may have; nothing more is sent on it then.
    package var window = 100
    /// Whether stream features come with another prefix than `stream:` (docs/protocol.md, Setting up a stream).
    package var usesForeignFeaturePrefix = false
    /// Whether RFC 3921's session is offered.
    package var offersSession = true
    /// Sends a space on each bound connection so often; nil for never.
    package var whitespaceInterval: TimeAmount?
    /// What each sender's devices send.
    package var load = LoadProfile()
    /// What goes wrong.
    package var faults = FaultScript()
    /// A file to which both directions are written, one JSON object a line; nil for none.
    package var transcript: String?
    /// A file to which every accepted ack is written, one JSON object a line; nil for none.
    package var acks: String?
    /// Notes how long the ack of every so-manyth generated message takes; nil for none.
    package var latencySampling: Int?
    /// Whether every accepted ack is noted for ``Emulator/takeAcks()``.
    package var recordsAcks = false
    /// How many messages a draining connection still gets while no other is bound for its sender.
    package var drainMessages = 20
    /// How long a draining connection stays open at most.
    package var drainTimeout = TimeAmount.seconds(5)
    /// Whether a draining connection is closed at all; without, only the peer ends it.
    package var closesDrained = true
    /// How long a peer has to answer the end of the stream.
    package var closeTimeout = TimeAmount.seconds(2)

    package init() {}
}
