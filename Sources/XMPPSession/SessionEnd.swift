package import Telemetry
package import XMPP

/// How a connection ended; a class, because a connection's futures reserve room for it from the start.
package final class SessionEnd: Sendable {
    /// The value of `upstream_reconnects_total{reason}`.
    package let reason: ReconnectReason
    /// Cause and fix, for an operator; never a secret.
    package let message: String
    /// The reconnect policy's input.
    package let ending: ReconnectPolicy.Ending
    package let negotiation: NegotiationError?
    package let server: ReachedServer?
    /// The server's stream management; nil if the stream was not bound.
    package let management: StreamManagement.Offer?
    /// The other host that the server named (`see-other-host`), made safe for a log.
    package let otherHost: String?

    init(
        reason: ReconnectReason,
        message: String,
        ending: ReconnectPolicy.Ending,
        negotiation: NegotiationError? = nil,
        server: ReachedServer? = nil,
        management: StreamManagement.Offer? = nil,
        otherHost: String? = nil
    ) {
        self.reason = reason
        self.message = message
        self.ending = ending
        self.negotiation = negotiation
        self.server = server
        self.management = management
        self.otherHost = otherHost
    }
}

/// An event that calls for a new connection.
package enum ConnectionTurn: Sendable {
    /// The peer will close the connection, which continues until then: open a replacement.
    case draining(bound: Duration)
    case ended(SessionEnd)
}
