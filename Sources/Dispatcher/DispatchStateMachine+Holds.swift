/// A pause that a handler asked for, to be published to other workers.
package struct HandlerHold: Sendable, Equatable {
    package var remaining: Duration
    /// The reason, without the handler's own words.
    package var reason: String

    package init(remaining: Duration, reason: String) {
        (self.remaining, self.reason) = (remaining, reason)
    }
}

/// A change of a handler's circuit in some worker.
package struct CircuitChange: Sendable, Equatable {
    package var isOpen: Bool
    /// Another one for each change.
    package var id: Int64

    package init(isOpen: Bool, id: Int64) { (self.isOpen, self.id) = (isOpen, id) }
}

// Pauses that the handler asks for: every worker keeps them, until an operator ends them. And circuits that open or close
// elsewhere: one attempt here decides.
extension DispatchStateMachine {
    /// The handler's pause that the table does not know yet; nil if there is none.
    package func untoldHold(now: ContinuousClock.Instant) -> HandlerHold? {
        guard let reason = untoldHold, let end = breaker.heldUntil, end > now else { return nil }
        return HandlerHold(remaining: now.duration(to: end), reason: reason)
    }

    package mutating func holdTold(_ hold: HandlerHold) {
        if untoldHold == hold.reason { untoldHold = nil }
    }

    /// Records that the table knows a change of the circuit.
    package mutating func circuitTold(_ change: CircuitChange) {
        if untoldCircuit == change.isOpen { untoldCircuit = nil }
        circuit = change
    }

    /// Adopts the table's controls of the handler; returns waiting deliveries to release, and what changed.
    package mutating func adopt(
        _ control: HandlerControl,
        now: ContinuousClock.Instant
    ) -> (released: [Settlement], changes: [ControlChange]) {
        var (released, changes): ([Settlement], [ControlChange]) = ([], [])
        if let known = resumption, known != control.resumption, !breaker.isClosed {
            breaker.reset()
            // Pauses that other workers were asked for since are in the table.
            untoldHold = nil
            // Nobody else says that it is closed now.
            if untoldCircuit ?? circuit?.isOpen == true { untoldCircuit = false }
            changes.append(.resumed)
        }
        resumption = control.resumption
        if let hold = control.hold, now + hold > (breaker.heldUntil ?? now) + .seconds(1) {
            if let transition = breaker.held(for: hold, now: now) {
                released += releaseWaiting()
                changes.append(.held(transition))
            }
        }
        if control.circuit?.id != circuit?.id {
            circuit = control.circuit
            if let isOpen = circuit?.isOpen {
                if untoldCircuit == nil, breaker.doubt(isOpen: isOpen) { changes.append(.doubted(isOpen: isOpen)) }
            } else if breaker.trust() {
                // The worker that told of it has gone.
                changes.append(.doubted(isOpen: false))
            }
        }
        if control.isPaused != isPaused, mode != .stopping {
            released += setPaused(control.isPaused)
            changes.append(control.isPaused ? .paused : .unpaused)
        }
        return (released, changes)
    }

    /// A change by an operator, or another worker.
    package enum ControlChange: Sendable, Equatable {
        case paused
        case unpaused
        case held(CircuitBreaker.Transition)
        case resumed
        /// The handler fails in another worker, or works there again.
        case doubted(isOpen: Bool)
    }
}
