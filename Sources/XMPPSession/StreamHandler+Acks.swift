import Ingest
import NIOCore
import Telemetry
import Vocabulary
import XMPP

// Acks of committed messages.
extension StreamHandler where Delegate == MessageReceiver {
    /// Acks committed messages of this connection, in one write.
    func settled(_ copies: SettledCopies) {
        let metrics = delegate.metrics
        guard let bound else { return }
        let encoder = bound.session.acks
        var bytes = 0
        var size = 0
        var longest = 0
        var acked = 0
        copies.visit { batch, index in
            bytes += batch[index].bytes.count
            guard batch[index].answer.isSent else {
                if batch[index].answer == .tooLarge { metrics.acks[.tooLarge].increment() }
                return
            }
            acked += 1
            size += encoder.usualSize(of: batch, index)
            longest = max(longest, encoder.sizeLimit(of: batch, index))
        }
        let now = clock.monotonic()
        if acked > 0 {
            ack(copies, bound, count: acked, capacity: size + longest, now: now)
        } else {
            copies.trace?.ended(.none)
        }
        // After the acks: a server that was told that a stanza is handled does not redeliver it.
        let settlement = bound.session.committed(copies.count, size: bytes, now: now) { copies.messages }
        perform(settlement)
        finishPage()
        updateReading()
        if bound.session.isSettled { delegate.allSettled.take()?() }
        flush()
    }

    private func canAck(_ bound: BoundSession) -> Bool { bound.session.canSend && context?.channel.isActive == true }

    /// Writes acks, and keeps those that may have to be sent again; `isCounted` says that they count as sent already.
    func sendAcks(_ bytes: ByteBuffer, count: Int, isCounted: Bool, _ trace: AckTrace? = nil) {
        let acks = delegate.metrics.acks
        guard let bound, canAck(bound), let context else {
            if !isCounted { acks[.connectionGone].increment(by: count) }
            return
        }
        let number = keep(UnconfirmedAcks.Piece(last: 0, count: count, bytes: bytes, isCounted: isCounted), bound)
        write(bytes, in: context) { [delegate] result in
            if case .success = result { trace?.ended(.sent) }
            if isCounted { return }
            switch result {
            case .success:
                acks[.sent].increment(by: count)
                if let number { delegate.unconfirmed.wrote(number) }
            // Kept acks are counted when they are sent or given up.
            case .failure where number.map(delegate.unconfirmed.holds) ?? false: trace?.ended(.kept)
            case .failure: acks[.connectionGone].increment(by: count)
            }
        }
    }

    /// Counts acks among our stanzas; if the stream can be resumed, keeps them and returns the last one's number.
    @discardableResult
    private func keep(_ piece: UnconfirmedAcks.Piece, _ bound: BoundSession) -> UInt32? {
        guard let number = bound.session.wrote(piece.count) else { return nil }
        var piece = piece
        piece.last = number
        delegate.unconfirmed.confirm(bound.session.confirmed)
        guard !delegate.unconfirmed.append(piece) else { return number }
        let wasSuspended = bound.session.isSuspended
        bound.session.forgoResumption()
        if wasSuspended {
            delegate.abandonAcks()
            delegate.metrics.acks[.connectionGone].increment(by: piece.count)
        }
        // On an open stream, each write counts its own acks.
        delegate.unconfirmed = UnconfirmedAcks()
        return nil
    }

    /// Acks messages, with room for what acks usually take and the largest: it grows only for ids with escapes.
    private func ack(_ copies: SettledCopies, _ bound: BoundSession, count: Int, capacity: Int, now: UInt64) {
        let (isSuspended, encoder) = (bound.session.isSuspended, bound.session.acks)
        guard isSuspended || canAck(bound) else {
            delegate.metrics.acks[.connectionGone].increment(by: count)
            return
        }
        var buffer = ByteBuffer()
        buffer.reserveCapacity(capacity)
        copies.visit { batch, index in
            let size = encoder.sizeLimit(of: batch, index)
            _ = buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: size) { room in
                encoder.encode(batch, index, into: room)
            }
        }
        if isSuspended {
            // They are sent when the session resumes, which continues the same stream (XEP-0198 section 5).
            keep(UnconfirmedAcks.Piece(last: 0, count: count, bytes: buffer, isCounted: false), bound)
            copies.trace?.ended(.kept)
        } else {
            sendAcks(buffer, count: count, isCounted: false, copies.trace)
            delegate.metrics.ackLatency.observe { add in
                copies.visit { add(Double(now &- min(now, $0[$1].parsedAt)) * 1e-9) }
            }
        }
    }

    /// The stream that may be resumed: this one, or the one that was to be resumed on it and was not requested.
    func takeSuspended() -> SuspendedStream? {
        if let waiting = delegate.suspendedStream.take() { return waiting }
        guard let suspended = bound?.session.suspended else {
            // Whatever commits from now on has no stream for its acks.
            bound?.session.forgoResumption()
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
