import Logging
import NIOCore
import Pipeline
import Telemetry
import UpstreamKit
import XMLWire
import XMPP

// The bound stream: stanzas in, acks out.
extension SessionHandler {
    /// Hands an event of the stream to the session.
    func receive(_ event: XMLStreamEvent) {
        switch event {
        case .stanza(let stanza): receive(stanza)
        case .skipped(let stanza): skipped(stanza)
        case .closed: peerClosed()
        case .opened: break
        }
    }

    private func receive(_ stanza: Stanza) {
        let clock = environment.clock
        let time = readTime ?? (clock.now(), ArrivalClock.monotonicNanoseconds())
        readTime = time
        switch session?.stanza(stanza, receivedAt: clock.unique(near: time.wall), parsedAt: time.monotonic) {
        case .deliver(let message):
            collect(message)
        case .note(let kind):
            note(kind)
        case .drain(let kind, let isFirst):
            note(kind)
            if isFirst { drain() }
        case .reply(let bytes):
            environment.metrics.stanzas[.other].increment()
            write(bytes)
        case .answer(let bytes):
            write(bytes)
        case .managed(let outcome, let bytes):
            report(outcome)
            write(bytes)
        case .end(let error, let bytes):
            write(bytes)
            end(.streamError, "stream error \(error.summary)", error: error.condition)
            closeChannel()
        case .some(.none), nil:
            break
        }
    }

    /// A stanza was read to its end and no further looked at.
    private func skipped(_ stanza: SkippedStanza) {
        guard session?.skipped(stanza.name) == true else { return }
        environment.metrics.stanzas[.other].increment()
        logger.event(
            .debug,
            .stanzaIgnored,
            "a stanza too deep or too wide, or against the rules of namespaces, was skipped",
            [.reason: .string(stanza.reason.shortDescription)]
        )
    }

    private func collect(_ message: consuming IncomingMessage) {
        switch message.kind {
        case .upstream: pendingKinds.upstream += 1
        case .receipt: pendingKinds.receipt += 1
        case .malformed: pendingKinds.malformed += 1
        }
        let action = window.took(bytes: message.bytes.count)
        pending.append(message)
        if action == .pause { readingChanged(paused: true) }
    }

    /// Counts the copies of the read in hand and hands them over.
    func submitPending() {
        guard !pending.isEmpty, let sink else { return }
        environment.metrics.messages.received(
            upstream: pendingKinds.upstream,
            receipt: pendingKinds.receipt,
            malformed: pendingKinds.malformed
        )
        pendingKinds = (0, 0, 0)
        environment.ingest.submit(pending, from: sink)
        // Storage for the next read, where it is small: connections are idle for most of their time.
        pending.removeAll(keepingCapacity: pending.capacity <= 32)
    }

    private func note(_ kind: DecodedStanza) {
        let stanzas = environment.metrics.stanzas
        switch kind {
        case .message: break
        case .ack: stanzas[.ack].increment()
        case .nack(let code):
            stanzas[.nack].increment()
            logger.event(.debug, .stanzaIgnored, "the peer sent a nack", [.reason: .string(code.rawValue)])
        case .control(let type):
            stanzas[.control].increment()
            logger.event(.debug, .stanzaIgnored, "the peer sent a control message", [.reason: .string(type.rawValue)])
        case .error(let error):
            stanzas[.error].increment()
            logger.event(
                .debug,
                .stanzaIgnored,
                "the peer answered with a stanza error",
                [.reason: .string(error.condition.rawValue)]
            )
        case .untrusted:
            stanzas[.untrusted].increment()
            logger.event(.debug, .stanzaIgnored, "a payload from a sender that is not in trusted_from")
        case .other: stanzas[.other].increment()
        }
    }

    private func drain() {
        guard case .bound(let since) = phase else { return }
        count(as: .draining)
        logger.event(.info, .streamDraining, "the peer drains the stream; a replacement opens, this one goes on")
        turnPromise.succeed(.draining(bound: .nanoseconds((NIODeadline.now() - since).nanoseconds)))
        drainTimer = context?.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(DrainingStreams.timeLimit)) {
            self.logger.event(.notice, .streamDraining, "the peer drains the stream and does not close it; closing it")
            self.shutDown()
        }
    }

    /// Tells of a standard server that keeps nothing for us: once, since every connection to it is the same.
    func report(_ outcome: StreamManagement.Outcome) {
        let reason: String
        switch outcome {
        case .enabled: return
        case .missing: reason = "not offered"
        case .refused(let condition): reason = condition.rawValue
        }
        guard settings.managementWarning.isFirst() else { return }
        logger.event(
            .warning,
            .streamUnmanaged,
            "no stream management (XEP-0198) on this server: messages sent to a dead connection are lost",
            [.reason: .string(reason)]
        )
    }

    // MARK: Acks

    /// Copies of this connection have committed: acks them, in one write.
    func settled(_ messages: [IncomingMessage]) {
        var bytes = 0
        var size = 0
        var acked = 0
        // In place: a copy of a message would retain its bytes.
        let settled = messages.span
        for index in settled.indices {
            bytes += settled[index].bytes.count
            guard settled[index].isAcked else {
                if settled[index].isAckTooLarge { environment.metrics.acks[.tooLarge].increment() }
                continue
            }
            acked += 1
            size += encoder.usualSize(of: settled[index])
        }
        if acked > 0 { ack(messages, count: acked, size: size) }
        // After the acks: what the server has been told of as handled, it can't bring an ack back for. The last word of an
        // ending session says it anyway.
        let told = session?.committed(messages)
        if let told, !isClosing { write(told) }
        if window.settled(messages: messages.count, bytes: bytes) == .resume { readingChanged(paused: false) }
        if window.isEmpty, isClosing { everythingSettled() }
        if window.isEmpty { emptied?.succeed() }
        flush()
    }

    private func ack(_ messages: [IncomingMessage], count: Int, size: Int) {
        let acks = environment.metrics.acks
        guard session?.canSend ?? false, let context, context.channel.isActive else {
            acks[.connectionGone].increment(by: count)
            return
        }
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
        let now = ArrivalClock.monotonicNanoseconds()
        environment.metrics.ackLatency.observe(count: messages.count) { index in
            Double(now &- messages[index].parsedAt) * 1e-9
        }
    }

    /// The window has filled or emptied.
    private func readingChanged(paused: Bool) {
        switch session?.readingPaused(paused, now: ArrivalClock.monotonicNanoseconds()) {
        case .wait(let timer)?: setTimer(timer)
        case .send(let bytes)?: write(bytes)
        case .none?, nil: break
        }
        updateReading()
    }

    // MARK: Timers

    /// Sets the session's timer.
    func setTimer(_ timer: SessionTimer) {
        guard let context else { return }
        self.timer?.cancel()
        self.timer = context.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(timer.delay)) {
            self.timerFired(timer.id)
        }
    }

    private func timerFired(_ id: UInt64) {
        switch session?.timerFired(id, now: ArrivalClock.monotonicNanoseconds()) {
        case .wait(let timer)?:
            setTimer(timer)
        case .ping(let bytes, let timer)?:
            write(bytes)
            setTimer(timer)
        case .withdraw(let bytes, let timer)?:
            logger.event(.notice, .streamWithdrawn, "reading has been paused for long: the server is to store messages")
            write(bytes)
            setTimer(timer)
        case .dead?:
            end(.pingTimeout, "the peer answered no ping: the connection is dead")
            context?.close(promise: nil)
        case .close(let bytes)?:
            write(bytes)
            end(.streamClosed, "the stream was closed")
            closeChannel()
        case .unmanaged(let bytes)?:
            write(bytes)
            let message = "the server offers stream management and does not answer the request for it"
            end(.policyViolation, message, error: .policyViolation)
            closeChannel()
        case .none?, nil:
            break
        }
        flush()
    }
}
