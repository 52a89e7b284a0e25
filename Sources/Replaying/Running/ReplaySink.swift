/// A target that receives messages with their bodies: a file, stdout, an XMPP endpoint.
protocol ReplaySink: Sendable {
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
    func run() async {}
    func close() async {}
}
