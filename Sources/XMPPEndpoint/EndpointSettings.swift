package import Logging
package import Replaying
package import XMPPSession

/// How to reach an XMPP server, and with which account.
package struct EndpointSettings: ReplayEndpoint {
    /// Host, port, TLS, account and secret; bound without presence, so that a standard server delivers nothing to it.
    package var connection: SenderSettings
    /// How long unacked messages may wait for any ack before they are resent over another connection.
    package var ackTimeout = Duration.seconds(60)
    /// How many consecutive connections may bring no ack before the target counts as down.
    package var attempts = 8

    package init(_ connection: SenderSettings) { self.connection = connection }

    package func open(
        from start: ReplayLease.Position,
        window: Int,
        progress: ReplayProgress,
        logger: Logger
    ) -> any ReplaySink {
        EndpointSink(self, from: start, window: window, progress: progress, logger: logger)
    }
}
