package import NIOCore
package import TLSWire
package import XMLWire
package import XMPP

/// Everything a connection of one sender needs to know. Made once, when the worker starts.
package struct SenderSettings: Sendable {
    /// How the transport gets its TLS.
    package enum Security: Sendable {
        /// TLS from the first byte.
        case direct(TLSContext)
        /// `<starttls/>` inside the stream; without an offer there is no connection.
        case startTLS(TLSContext)
    }

    /// The sender's place among the configured ones, as ``IncomingMessage/sender`` and the metrics count it.
    package var index: Int
    /// The sender id: SASL's user, and part of every message's key.
    package var senderID: String
    /// The host to connect to.
    package var host: String
    /// The TCP port to connect to.
    package var port: Int
    /// The XMPP domain: the stream's `to`, and the domain of our JID.
    package var domain: String
    /// How many streams to keep open.
    package var connections: Int
    /// TLS, and the trust and host name behind it.
    package var security: Security
    /// Which kind of server the peer is.
    package var dialect: Dialect
    /// Whether SASL gets the whole JID or its localpart.
    package var username: UsernameForm
    /// Unacked messages that the peer allows on one connection.
    package var window: Int
    /// Over what a `message_id` is unique.
    package var idScope: IDScope
    /// Stanza senders that are accepted as the CCS, besides the ones that always are.
    package var trustedFrom: [JID]
    /// How long a stream may be silent before it is pinged.
    package var keepaliveInterval: TimeAmount
    /// How long the answer to a ping may take.
    package var keepaliveTimeout: TimeAmount
    /// The bounds of what a peer may send.
    package var limits: StreamLimits
    /// How long one step from TCP connect to bind may take.
    package var stepTimeout: TimeAmount = .seconds(15)
    /// Reads the secret, each time it is needed, so that a rotated file takes effect at the next connection.
    package var secret: @Sendable () throws -> [UInt8]
}
