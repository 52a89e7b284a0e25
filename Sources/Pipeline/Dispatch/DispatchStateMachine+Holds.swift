/// A pause that a handler asked for, to be told to the other workers.
package struct HandlerHold: Sendable, Equatable {
    /// How much of it is left.
    package var remaining: Duration
    /// What the handler answered, without its own words.
    package var reason: String

    package init(remaining: Duration, reason: String) {
        self.remaining = remaining
        self.reason = reason
    }
}

// Pauses that the handler asks for: every worker keeps to them, until an operator ends them.
extension DispatchStateMachine {
    /// What the table is to be told of the pause that the handler asked for.
    ///
    /// - Parameter now: The current time.
    /// - Returns: nil where the table knows.
    package func untoldHold(now: ContinuousClock.Instant) -> HandlerHold? {
        guard let reason = untoldHold, let end = breaker.heldUntil, end > now else { return nil }
        return HandlerHold(remaining: now.duration(to: end), reason: reason)
    }

    /// The table knows.
    package mutating func holdTold(_ hold: HandlerHold) {
        if untoldHold == hold.reason { untoldHold = nil }
    }

    mutating func noteHold(_ failure: HandlerFailure) { untoldHold = failure.logText }

    /// Takes what the table says about the handler.
    ///
    /// - Parameters:
    ///   - control: What it says.
    ///   - now: When it was asked.
    /// - Returns: Waiting deliveries to release, and what changed.
    package mutating func adopt(
        _ control: HandlerControl,
        now: ContinuousClock.Instant
    ) -> (released: [Settlement], changes: [ControlChange]) {
        var (released, changes): ([Settlement], [ControlChange]) = ([], [])
        if let known = resumption, known != control.resumption, !breaker.isClosed {
            breaker.reset()
            // What another worker was told since is in the table.
            untoldHold = nil
            changes.append(.resumed)
        }
        resumption = control.resumption
        if let hold = control.hold, now + hold > (breaker.heldUntil ?? now) + .seconds(1) {
            if let transition = breaker.held(for: hold, now: now) {
                released += releaseWaiting()
                changes.append(.held(transition))
            }
        }
        if control.isPaused != isPaused, mode != .stopping {
            released += setPaused(control.isPaused)
            changes.append(control.isPaused ? .paused : .unpaused)
        }
        return (released, changes)
    }

    /// What an operator, or another worker, changed.
    package enum ControlChange: Sendable, Equatable {
        /// The handler is paused.
        case paused
        /// Its pause is over.
        case unpaused
        /// Another worker was asked for a pause.
        case held(CircuitBreaker.Transition)
        /// The circuit breaker is closed, as an operator wants.
        case resumed
    }
}
