import NIOCore
import Telemetry
import Vocabulary
import XMLWire
import XMPP

// The bound stream: events and timers for the session.
extension StreamHandler {
    func receive(_ event: XMLStreamEvent) {
        switch event {
        case .stanza(let stanza): receive(stanza)
        case .skipped(let stanza):
            if session?.skipped(stanza.name) == true { delegate.noticed(.skipped(stanza.reason)) }
        case .closed:
            if let step = session?.peerClosed() { perform(step) }
        case .opened: break
        }
    }

    private func receive(_ stanza: Stanza) {
        let time = readTime ?? (clock.now(), MonotonicTime.now.nanoseconds)
        readTime = time
        unifyNamespace(of: stanza)
        let receivedAt = clock.unique(near: time.wall)
        let following = stream.unreadBytes
        let action = session?.stanza(stanza, receivedAt: receivedAt, parsedAt: time.monotonic, following: following)
        // Consumed: else the message would be copied out of it.
        switch consume action {
        case .deliver(let message, let timer)?:
            received.append(message)
            if let timer { setTimer(timer) }
        case .note(let kind)?:
            note(kind, stanza)
        case .drain(let kind, let timer)?:
            note(kind, stanza)
            if let timer { drain(timer, now: time.monotonic) }
        case .reply(let bytes)?:
            delegate.noticed(.answered)
            write(bytes)
        case .answer(let bytes)?:
            write(bytes)
        case .managed(let outcome)?:
            delegate.noticed(.managed(outcome))
        case .rival?:
            note(.other, stanza)
            delegate.noticed(.rival)
        case .end(let bytes, let outcome)?:
            end(bytes, outcome)
        case .some(.none), nil:
            break
        }
    }

    private func note(_ kind: DecodedStanza, _ stanza: Stanza) {
        guard let reason = delegate.noted(kind, in: stanza) else { return }
        end(.streamClosed, reason)
        closeChannel()
    }

    private func drain(_ timer: SessionTimer, now: UInt64) {
        guard let context, let bound = session?.boundTime(now: now) else { return }
        delegate.noticed(.draining(bound: bound))
        drainTimer = context.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(timer.delay)) {
            self.timerFired(timer.id)
        }
    }

    func setTimer(_ timer: SessionTimer) {
        guard let context else { return }
        self.timer?.cancel()
        self.timer = context.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(timer.delay)) {
            self.timerFired(timer.id)
        }
    }

    private func timerFired(_ id: UInt64) {
        switch session?.timerFired(id, now: MonotonicTime.now.nanoseconds) {
        case .wait(let timer)?:
            setTimer(timer)
        case .ping(let bytes, let timer)?, .refresh(let bytes, let timer)?:
            write(bytes)
            setTimer(timer)
        case .withdraw(let bytes, let timer)?:
            delegate.noticed(.withdrawn)
            write(bytes)
            setTimer(timer)
        case .drainExpired(let step)?:
            delegate.noticed(.drainExpired)
            perform(step)
        case .end(let bytes, let outcome)?:
            end(bytes, outcome)
        case .some(.none), nil:
            break
        }
        flush()
    }
}
