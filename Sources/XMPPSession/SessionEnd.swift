package import Telemetry
package import XMPP

/// How a connection ended, for logs, metrics and the decision when to connect again.
package struct SessionEnd: Sendable {
    /// The kind, for `upstream_reconnects_total{reason}`.
    package var reason: ReconnectReason
    /// Cause and fix, for an operator.
    ///
    /// Never a secret.
    package var message: String
    /// What the reconnect policy needs to know.
    package var ending: ReconnectPolicy.Ending
    /// The negotiation's verdict, where it failed.
    package var negotiation: NegotiationError?
    /// What was connected to; nil where nothing was.
    package var server: ReachedServer?
    /// What the server has of stream management; nil where the stream was not bound.
    package var management: StreamManagement.Offer?
    /// The other host that the server named (`see-other-host`), made fit for a log; else nil.
    package var otherHost: String?
}

/// What a slot waits for: whatever calls for a new connection.
package enum ConnectionTurn: Sendable {
    /// The peer will close the connection: open a replacement. This one goes on until the peer closes it.
    case draining(bound: Duration)
    /// The connection has ended.
    case ended(SessionEnd)
}
