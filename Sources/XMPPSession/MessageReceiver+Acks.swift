import NIOCore
import Pipeline
import Telemetry
import Vocabulary
import XMPP

// Acks of committed messages.
extension StreamHandler where Delegate == MessageReceiver {
    /// Acks committed messages of this connection, in one write.
    func settled(_ copies: SettledCopies) {
        let metrics = delegate.metrics
        let encoder = delegate.encoder
        var bytes = 0
        var size = 0
        var longest = 0
        var acked = 0
        copies.visit { copy in
            bytes += copy.pointee.bytes.count
            guard IncomingMessage.isAcked(copy) else {
                if copy.pointee.isAckTooLarge { metrics.acks[.tooLarge].increment() }
                return
            }
            acked += 1
            size += encoder.usualSize(of: copy)
            longest = max(longest, encoder.sizeLimit(of: copy))
        }
        let now = MonotonicTime.now.nanoseconds
        if acked > 0 {
            ack(copies, count: acked, capacity: size + longest, now: now)
        } else {
            copies.trace?.ended(.none)
        }
        // After the acks: a server that has been told that a stanza is handled no longer redelivers it for want of an
        // ack.
        let settlement = session?.committed(copies.count, size: bytes, now: now) { copies.messages }
        guard let settlement else { return }
        write(settlement.bytes)
        if let timer = settlement.timer { setTimer(timer) }
        perform(settlement.step)
        updateReading()
        if session?.isSettled ?? true { delegate.allSettled.take()?() }
        flush()
    }

    private var canAck: Bool { (session?.canSend ?? false) && (context?.channel.isActive ?? false) }

    /// Writes acks, and keeps those that may have to be sent again; `isCounted` says that they count as sent already.
    func sendAcks(_ bytes: ByteBuffer, count: Int, isCounted: Bool, _ trace: AckTrace? = nil) {
        let acks = delegate.metrics.acks
        guard canAck, let context else {
            if !isCounted { acks[.connectionGone].increment(by: count) }
            return
        }
        let number = keep(UnconfirmedAcks.Piece(last: 0, count: count, bytes: bytes, isCounted: isCounted))
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

    /// Counts acks among our stanzas and keeps them if the stream can be resumed.
    ///
    /// - Returns: The number of the last one if they are kept; else nil.
    @discardableResult
    private func keep(_ piece: UnconfirmedAcks.Piece) -> UInt32? {
        guard let number = session?.wrote(piece.count) else { return nil }
        var piece = piece
        piece.last = number
        delegate.unconfirmed.confirm(session?.confirmed ?? number)
        guard !delegate.unconfirmed.append(piece) else { return number }
        let wasSuspended = session?.isSuspended ?? false
        session?.forgoResumption()
        if wasSuspended {
            delegate.abandonAcks()
            delegate.metrics.acks[.connectionGone].increment(by: piece.count)
        }
        // On an open stream, each write counts its own acks.
        delegate.unconfirmed = UnconfirmedAcks()
        return nil
    }

    /// Acks `count` of the committed copies; the buffer outgrows `capacity` only for ids that need escapes.
    private func ack(_ copies: SettledCopies, count: Int, capacity: Int, now: UInt64) {
        let isSuspended = session?.isSuspended ?? false
        guard isSuspended || canAck else {
            delegate.metrics.acks[.connectionGone].increment(by: count)
            return
        }
        let encoder = delegate.encoder
        var buffer = ByteBuffer()
        buffer.reserveCapacity(capacity)
        copies.visit { copy in
            _ = buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: encoder.sizeLimit(of: copy)) { room in
                encoder.encode(copy, into: room)
            }
        }
        if isSuspended {
            // They are sent when the session resumes, which continues the same stream (XEP-0198 section 5).
            keep(UnconfirmedAcks.Piece(last: 0, count: count, bytes: buffer, isCounted: false))
            copies.trace?.ended(.kept)
        } else {
            sendAcks(buffer, count: count, isCounted: false, copies.trace)
            delegate.metrics.ackLatency.observe { add in
                copies.visit { add(Double(now &- $0.pointee.parsedAt) * 1e-9) }
            }
        }
    }
}
