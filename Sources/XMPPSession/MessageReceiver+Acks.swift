import NIOCore
import Telemetry
import Vocabulary
import XMPP

// The way back: acks of what has committed.
extension StreamHandler where Delegate == MessageReceiver {
    /// Messages of this connection have committed: acks them, in one write.
    func settled(_ messages: [IncomingMessage]) {
        let metrics = delegate.metrics
        var bytes = 0
        var size = 0
        var acked = 0
        // In place: a copy of a message would retain its bytes.
        let settled = messages.span
        for index in settled.indices {
            bytes += settled[index].bytes.count
            guard settled[index].isAcked else {
                if settled[index].isAckTooLarge { metrics.acks[.tooLarge].increment() }
                continue
            }
            acked += 1
            size += delegate.encoder.usualSize(of: settled[index])
        }
        let now = MonotonicTime.now.nanoseconds
        if acked > 0 { ack(messages, count: acked, size: size, now: now) }
        // After the acks: a server that has been told of a stanza as handled no longer sends it again for want of an ack.
        guard let settlement = session?.committed(messages, size: bytes, now: now) else { return }
        write(settlement.bytes)
        if let timer = settlement.timer { setTimer(timer) }
        perform(settlement.step)
        updateReading()
        if session?.isSettled ?? true { delegate.allSettled?.succeed() }
        flush()
    }

    private func ack(_ messages: [IncomingMessage], count: Int, size: Int, now: UInt64) {
        let acks = delegate.metrics.acks
        guard session?.canSend ?? false, let context, context.channel.isActive else {
            acks[.connectionGone].increment(by: count)
            return
        }
        let encoder = delegate.encoder
        let settled = messages.span
        // With room for the last one, too, whatever it may hold: the buffer grows for ids that need escapes alone.
        let last = encoder.sizeLimit(of: settled[messages.count - 1])
        var buffer = context.channel.allocator.buffer(capacity: size + last)
        for index in settled.indices {
            buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: encoder.sizeLimit(of: settled[index])) { room in
                encoder.encode(settled[index], into: room)
            }
        }
        write(buffer, in: context) { result in
            switch result {
            case .success: acks[.sent].increment(by: count)
            case .failure: acks[.connectionGone].increment(by: count)
            }
        }
        delegate.metrics.ackLatency.observe(count: messages.count) { index in
            Double(now &- messages[index].parsedAt) * 1e-9
        }
    }
}
