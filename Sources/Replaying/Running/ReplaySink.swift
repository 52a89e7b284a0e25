/// A target that takes messages with their bodies: a file, stdout, an XMPP endpoint.
protocol ReplaySink: Sendable {
    /// Takes messages, in order; waits where the target wants it.
    ///
    /// - Throws: ``ReplayError`` where the target can't be had; `CancellationError`.
    func send(_ items: [ReplayItem]) async throws

    /// Returns when all that was sent is done.
    func finish() async throws

    /// How far the target has got for good: what is before this place never has to be sent again.
    func position() async throws -> ReplayLease.Position

    /// Does what goes on beside ``send(_:)``, until cancelled.
    func run() async

    /// Lets go of the target.
    func close() async
}

extension ReplaySink {
    func run() async {}
    func close() async {}
}
