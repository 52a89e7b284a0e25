import Vocabulary
import XMLWire

// The session's timer (keepalive, stream management's answer, presence, the peer's end) and the draining timer.
extension Session {
    /// The longest wait for the answer to our request for stream management: it comes with what the server has stored, of
    /// which the server may read all first.
    static let managementTimeout = Duration.seconds(120)
    /// The time after which we close a stream that the peer drains and does not close.
    package static let drainingLimit = Duration.seconds(600)
    /// The id of the draining timer; the session's own timer counts from 1.
    static let drainingTimerID: UInt64 = 0

    package mutating func start() -> SessionTimer {
        var delay = keepaliveInterval
        if management.isRequested { delay = min(delay, Session.managementTimeout) }
        if presence.needsRefresh { delay = min(delay, Presence.refreshDelay) }
        if !isHeard { delay = .zero }
        return timer.set(after: delay, from: boundAt)
    }

    /// When the answer to our request for stream management is overdue.
    private var managementDue: UInt64 { boundAt &+ Session.managementTimeout.nanoseconds }

    // MARK: Pauses

    /// Notes that reading was paused or resumed: a standard server is told when the pause becomes long.
    mutating func readingPaused(_ paused: Bool, now: UInt64) -> Settlement {
        let pause = keepalive.pause(now: now)
        keepalive.paused(paused, now: now)
        guard paused != (pause != nil), case .open = state, !management.isRequested else { return Settlement() }
        guard paused else {
            presence.readingResumed(after: pause ?? .zero, now: now)
            return timer(notAfter: min(keepalive.due, presenceDue), now: now)
        }
        guard presence.isAvailable else { return Settlement() }
        return timer(notAfter: now &+ Presence.shortestPause.nanoseconds, now: now)
    }

    /// When presence is to be given, again or anew; never while reading is paused.
    private var presenceDue: UInt64 {
        guard keepalive.pause(now: 0) == nil else { return .max }
        guard presence.needsRefresh else { return presence.returnDue ?? .max }
        return (presence.returnedAt ?? boundAt) &+ Presence.refreshDelay.nanoseconds
    }

    /// Sets the timer if it would fire later than this: a stream that keeps pausing must not put it off forever.
    private mutating func timer(notAfter due: UInt64, now: UInt64) -> Settlement {
        timer.due > due ? Settlement(timer: timer.set(at: due, now: now)) : Settlement()
    }

    /// Notes whether the peer accepts our writes: while it does not, reading pauses lest acks pile up.
    package mutating func writable(_ isWritable: Bool, now: UInt64) -> Settlement {
        isBlocked = !isWritable
        return readingPaused(isBlocked || window.isPaused, now: now)
    }

    /// Notes a server's count of our stanzas that has grown: once it includes the ping, that has arrived.
    mutating func confirmed(since before: UInt32, now: UInt64) {
        guard management.confirmed != before else { return }
        if pinger.isReached(by: management.confirmed) {
            keepalive.answered(now: now)
        } else {
            keepalive.moved(now: now)
        }
    }

    /// Whether the answer to a ping may wait behind all that a standard server has stored.
    ///
    /// A server that resumed a session and answers nothing is deaf.
    var mayAnswerWait: Bool { presence.isUsed && isHeard && keepalive.listens }

    /// How many times as long as ever what we have written may wait for the peer.
    package var writePatience: UInt64 { keepalive.patience }

    // MARK: Firing

    package enum TimerAction: Sendable, Equatable {
        /// Nothing: it was a late one.
        case none
        case wait(SessionTimer)
        /// Send a ping, or a component's replacement for one, and set the timer.
        case ping([UInt8], SessionTimer)
        /// Send these bytes, which make the server send again what it has stored, and set the timer.
        case refresh([UInt8], SessionTimer)
        /// Reading has been paused for long: send these bytes, which make the server store messages, and set the timer.
        case withdraw([UInt8], SessionTimer)
        /// The server has stored much: take this step, after which that is fetched.
        case leave(EndStep)
        /// The peer has not closed the stream that it drains: take this step.
        case drainExpired(EndStep)
        /// Send these bytes, if any, and close the transport.
        case end([UInt8], SessionOutcome)
    }

    /// Handles the timer of this id, with the transport's counters if it has any.
    package mutating func timerFired(_ id: UInt64, now: UInt64, sent bytes: SentBytes? = nil) -> TimerAction {
        if id == Session.drainingTimerID {
            guard isDraining, case .open = state else { return .none }
            return .drainExpired(close())
        }
        guard id == timer.id else { return .none }
        switch state {
        case .open where management.isRequested:
            guard timer.due < managementDue else { return .end(farewell(.undefinedCondition), .unmanaged) }
            // Soon again: once it is answered, there are pings to send.
            return .wait(
                timer.set(at: min(managementDue, timer.due &+ Presence.refreshDelay.nanoseconds), now: timer.due)
            )
        case .open:
            return keepaliveFired(now: now, bytes)
        case .finishing(.peers):
            let bytes = goodbye()
            state = .ended
            return .end(bytes, .closedByPeer)
        case .closing:
            state = .ended
            return .end([], .closedByUs)
        case .finishing, .ended:
            return .none
        }
    }

    private mutating func keepaliveFired(now: UInt64, _ bytes: SentBytes?) -> TimerAction {
        if let pause = keepalive.pause(now: now) {
            if presence.isAvailable { return pausedFired(pause, now: now) }
        } else if now >= presenceDue {
            if settings.storeIsFetched, presence.mayOverflow(now: now) { return .leave(close()) }
            let isReturn = !presence.needsRefresh
            management.wrote(isReturn ? 1 : 2)
            if isReturn { keepalive.storeRequested() }
            let bytes = isReturn ? presence.becomeAvailable(now: now) ?? [] : presence.refresh()
            return .refresh(bytes, timer.set(at: min(keepalive.look(now: now), presenceDue), now: now))
        }
        switch keepalive.timerFired(now: now, sent: bytes) {
        case .wait(let delay): return .wait(timer.set(at: min(now &+ delay.nanoseconds, presenceDue), now: now))
        case .ping where settings.dialect == .component:
            // The answer to a ping would be a stanza for our domain like any other: a server gives it to any connection
            // of the component. So a space is sent, and TCP finds out whether it arrives.
            keepalive.answered(now: now)
            return .ping([0x20], timer.set(after: keepaliveInterval, from: now))
        case .ping(let delay):
            management.wrote()
            let ping = pinger.next(number: management.sent)
            return .ping(ping, timer.set(at: min(now &+ delay.nanoseconds, presenceDue), now: now))
        case .dead:
            // Resumed again, it would be as deaf.
            if !isHeard { management.forgoResumption() }
            transportClosed()
            return .end([], .silent)
        }
    }

    /// Withdraws presence where the pause has become longer than the server's queue allows.
    private mutating func pausedFired(_ pause: Duration, now: UInt64) -> TimerAction {
        let patience = presence.patience(inFlight: window.messages, pausedAt: now &- pause.nanoseconds)
        guard pause >= patience else { return .wait(timer.set(after: patience - pause, from: now)) }
        management.wrote()
        return .withdraw(presence.becomeUnavailable(now: now) ?? [], timer.set(after: keepaliveInterval, from: now))
    }

    /// Whether a stanza answers the last ping: from the pinged domain, from nobody, or in the name of our account
    /// (RFC 6120 section 8.1.2.1).
    func isPong(_ stanza: Stanza) -> Bool {
        pinger.isAnswered(by: stanza)
            && stanza.isFrom(nobodyOr: { $0 == domain || $0 == address || $0 == address.bare })
    }
}
