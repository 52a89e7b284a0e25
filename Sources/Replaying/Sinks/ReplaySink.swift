package import Logging

/// A target that receives messages with their bodies: a file, stdout, an XMPP endpoint.
package protocol ReplaySink: Sendable {
    /// Sends messages, in order; waits while the target is busy.
    ///
    /// - Throws: ``ReplayError`` if the target fails; `CancellationError`.
    func send(_ items: [ReplayItem]) async throws

    /// Returns when everything that was sent is done.
    func finish() async throws

    /// The position before which nothing ever has to be resent.
    func position() async throws -> ReplayLease.Position

    /// Runs beside ``send(_:)``, until cancelled.
    func run() async

    func close() async
}

extension ReplaySink {
    package func run() async {}
    package func close() async {}
}

/// A target beyond this process: how to reach it, before a run's start is known.
package protocol ReplayEndpoint: Sendable {
    /// Begins to send to it; at most `window` messages wait to be done, and `progress` is told why it waits.
    func open(from start: ReplayLease.Position, window: Int, progress: ReplayProgress, logger: Logger) -> any ReplaySink
}
