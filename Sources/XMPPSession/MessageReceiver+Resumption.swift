import NIOCore
import Telemetry
import Vocabulary
import XMPP

// Going on with the stream of a connection that was lost (docs/adr/0005).
extension MessageReceiver {
    package var suspended: SuspendedSession? { suspendedStream?.session }

    /// Sends the acks that the server has not got, those of what has committed meanwhile among them.
    func resumed(by handler: StreamHandler<MessageReceiver>) {
        guard let stream = suspendedStream, let confirmed = handler.session?.confirmed else { return }
        suspendedStream = nil
        var acks = stream.acks
        metrics.acks[.sent].increment(by: acks.confirm(confirmed))
        for piece in acks.pieces {
            handler.sendAcks(piece.bytes, count: piece.count, isCounted: piece.isCounted)
        }
    }

    /// The stream does not go on: what has not been sent is not acked.
    ///
    /// The messages come again, and are acked then; those that a `<resume/>` has told the server of, only if their devices send
    /// them again.
    ///
    /// To be called when no write is under way.
    func abandonAcks() {
        metrics.acks[.connectionGone].increment(by: unconfirmed.uncounted)
        unconfirmed = UnconfirmedAcks()
    }
}

extension StreamHandler where Delegate == MessageReceiver {
    /// The stream that may go on over another connection: this one's, or the one that was to go on over it and was not asked
    /// for.
    func takeSuspended() -> SuspendedStream? {
        if let waiting = delegate.suspendedStream {
            delegate.suspendedStream = nil
            return waiting
        }
        guard let suspended = session?.suspended else {
            // Acks of what commits from now on have no stream to go out on.
            session?.forgoResumption()
            delegate.abandonAcks()
            return nil
        }
        defer { delegate.unconfirmed = UnconfirmedAcks() }
        return SuspendedStream(
            session: suspended,
            acks: delegate.unconfirmed,
            heldUntil: suspended.management.resumable(until: delegate.lostAt, asked: settings.stream.resume)
        )
    }
}
