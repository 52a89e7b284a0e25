import NIOCore
import Pipeline
import Telemetry
import Vocabulary
import XMPP

// The way back: acks of what has committed.
extension StreamHandler where Delegate == MessageReceiver {
    /// Messages of this connection have committed: acks them, in one write.
    func settled(_ copies: SettledCopies) {
        let metrics = delegate.metrics
        let encoder = delegate.encoder
        var bytes = 0
        var size = 0
        var longest = 0
        var acked = 0
        copies.visit { copy in
            bytes += copy.bytes.count
            guard copy.isAcked else {
                if copy.isAckTooLarge { metrics.acks[.tooLarge].increment() }
                return
            }
            acked += 1
            size += encoder.usualSize(of: copy)
            longest = max(longest, encoder.sizeLimit(of: copy))
        }
        let now = MonotonicTime.now.nanoseconds
        if acked > 0 { ack(copies, count: acked, capacity: size + longest, now: now) }
        // After the acks: a server that has been told of a stanza as handled no longer sends it again for want of an ack.
        let settlement = session?.committed(copies.count, size: bytes, now: now) { copies.messages }
        guard let settlement else { return }
        write(settlement.bytes)
        if let timer = settlement.timer { setTimer(timer) }
        perform(settlement.step)
        updateReading()
        if session?.isSettled ?? true { delegate.allSettled?.succeed() }
        flush()
    }

    /// - Parameters:
    ///   - copies: What has committed.
    ///   - count: How many of them are acked.
    ///   - capacity: What the acks usually take, with room for the largest: the buffer grows only for ids that need escapes.
    ///   - now: Nanoseconds of the monotonic clock.
    private func ack(_ copies: SettledCopies, count: Int, capacity: Int, now: UInt64) {
        let acks = delegate.metrics.acks
        guard session?.canSend ?? false, let context, context.channel.isActive else {
            acks[.connectionGone].increment(by: count)
            return
        }
        let encoder = delegate.encoder
        var buffer = context.channel.allocator.buffer(capacity: capacity)
        copies.visit { copy in
            _ = buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: encoder.sizeLimit(of: copy)) { room in
                encoder.encode(copy, into: room)
            }
        }
        write(buffer, in: context) { result in
            switch result {
            case .success: acks[.sent].increment(by: count)
            case .failure: acks[.connectionGone].increment(by: count)
            }
        }
        delegate.metrics.ackLatency.observe { add in
            copies.visit { add(Double(now &- $0.parsedAt) * 1e-9) }
        }
    }
}
