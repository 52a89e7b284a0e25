package import Telemetry
package import XMPP

/// How a connection ended, for logs, metrics and the decision when to connect again.
///
/// A class, because the futures of a connection hold room for it from the beginning.
package final class SessionEnd: Sendable {
    /// The kind, for `upstream_reconnects_total{reason}`.
    package let reason: ReconnectReason
    /// Cause and fix, for an operator.
    ///
    /// Never a secret.
    package let message: String
    /// What the reconnect policy needs to know.
    package let ending: ReconnectPolicy.Ending
    /// The negotiation's verdict, where it failed.
    package let negotiation: NegotiationError?
    /// What was connected to; nil where nothing was.
    package let server: ReachedServer?
    /// What the server has of stream management; nil where the stream was not bound.
    package let management: StreamManagement.Offer?
    /// The other host that the server named (`see-other-host`), made fit for a log; else nil.
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

/// What a slot waits for: whatever calls for a new connection.
package enum ConnectionTurn: Sendable {
    /// The peer will close the connection: open a replacement. This one goes on until the peer closes it.
    case draining(bound: Duration)
    /// The connection has ended.
    case ended(SessionEnd)
}
