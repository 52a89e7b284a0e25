import NIOCore
import Telemetry
import Vocabulary
import XMLWire
import XMPP

// The bound stream: events and timers for the session.
extension StreamHandler {
    func receive(_ event: XMLStreamEvent, _ bound: BoundSession) {
        switch event {
        case .stanza(let stanza): receive(stanza, bound)
        case .skipped(let stanza):
            if bound.session.skipped(stanza.name) { delegate.noticed(.skipped(stanza.reason)) }
        case .closed: perform(bound.session.peerClosed())
        case .opened: break
        }
    }

    private func receive(_ stanza: Stanza, _ bound: BoundSession) {
        let time = readTime ?? (clock.now(), clock.monotonic())
        readTime = time
        // All readers know the client namespace alone; the raw bytes stay unchanged.
        if isComponent { stanza.moveElements(from: XMLNamespace.component, to: XMLNamespace.client) }
        let receivedAt = clock.unique(near: time.wall)
        let following = stream.unreadBytes
        let action = bound.session.stanza(
            stanza,
            receivedAt: receivedAt,
            parsedAt: time.monotonic,
            following: following
        )
        // Consumed: else the message would be copied out of it.
        switch consume action {
        case .deliver(let message, let timer):
            received.append(message)
            if let timer { setTimer(timer) }
        case .note(let kind):
            note(kind, stanza)
        case .drain(let kind, let timer):
            note(kind, stanza)
            if let timer { drain(timer, bound.session.boundTime(now: time.monotonic)) }
        case .reply(let bytes):
            delegate.noticed(.counted)
            write(bytes)
        case .answer(let bytes): write(bytes)
        case .managed(let outcome): delegate.noticed(.managed(outcome))
        case .rival:
            note(.other, stanza)
            delegate.noticed(.rival)
        case .end(let bytes, let outcome): end(bytes, outcome)
        case .none: break
        }
    }

    private func note(_ kind: DecodedStanza, _ stanza: Stanza) {
        guard let reason = delegate.noted(kind, in: stanza) else { return }
        end(.streamClosed, reason)
        closeChannel()
    }

    private func drain(_ timer: SessionTimer, _ boundTime: Duration) {
        guard let context else { return }
        delegate.noticed(.draining(bound: boundTime))
        drainTimer = schedule(timer, context)
    }

    func setTimer(_ timer: SessionTimer) {
        guard let context else { return }
        self.timer?.cancel()
        self.timer = schedule(timer, context)
    }

    private func schedule(_ timer: SessionTimer, _ context: ChannelHandlerContext) -> Scheduled<Void> {
        context.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(timer.delay)) { self.timerFired(timer.id) }
    }

    private func timerFired(_ id: UInt64) {
        guard case .bound(let bound) = phase else { return }
        switch bound.session.timerFired(id, now: clock.monotonic()) {
        case .wait(let timer): setTimer(timer)
        case .ping(let bytes, let timer), .refresh(let bytes, let timer):
            write(bytes)
            setTimer(timer)
        case .withdraw(let bytes, let timer):
            delegate.noticed(.withdrawn)
            write(bytes)
            setTimer(timer)
        case .drainExpired(let step):
            delegate.noticed(.drainExpired)
            perform(step)
        case .end(let bytes, let outcome): end(bytes, outcome)
        case .none: break
        }
        flush()
    }
}
