import Telemetry
import XMPP

// Resumption of a lost connection's stream (docs/adr/0005).
extension MessageReceiver {
    package var suspended: SuspendedSession? { suspendedStream?.session }

    /// Sends the acks that the server lacks, including those of messages committed meanwhile.
    func resumed(by handler: StreamHandler<MessageReceiver>) {
        guard let stream = suspendedStream, let confirmed = handler.bound?.session.confirmed else { return }
        suspendedStream = nil
        var acks = stream.acks
        metrics.acks[.sent].increment(by: acks.confirm(confirmed))
        for piece in acks.pieces {
            handler.sendAcks(piece.bytes, count: piece.count, isCounted: piece.isCounted)
        }
    }

    /// Gives up the unsent acks, since the stream is not resumed.
    ///
    /// The messages are redelivered and acked then; those that a `<resume/>` has reported to the server, only if their
    /// devices send them again. Call it when no write is under way.
    func abandonAcks() {
        metrics.acks[.connectionGone].increment(by: unconfirmed.uncounted)
        unconfirmed = UnconfirmedAcks()
    }
}
