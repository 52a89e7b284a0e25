import UpstreamKit
import Vocabulary

// The end of an attempt: what follows for the table, the circuit breaker and the other slots.
extension DispatchStateMachine {
    /// The result of an attempt.
    package enum Ending: Sendable, Equatable {
        case done
        /// It will be retried.
        case retry
        case rejected
        /// Its attempts are used up.
        case exhausted
        /// Released without a counted attempt.
        case released
        /// Another worker holds the lease now, and decides.
        case lost
    }

    /// What to do once an attempt has ended.
    package struct FinishAction: Sendable, Equatable {
        package var ending: Ending
        /// The settlement for the table; nil if the lease was lost, or the row is settled already.
        package var settlement: Settlement?
        package var transition: CircuitBreaker.Transition?
        /// Why the handler is to be paused in the database, if it is.
        package var pause: HandlerFailure?
        /// Whether the handler asked for a pause that other workers must learn of.
        package var isHeld = false
        /// Waiting deliveries to release, as the breaker opened or the handler was paused.
        package var released: [Settlement] = []
        /// Whether a claim has room and something to claim.
        package var wantsClaim = false
    }

    /// Records the end of an attempt.
    ///
    /// - Parameters:
    ///   - id: The attempt.
    ///   - end: The handler's verdict, or that it has settled the row itself.
    ///   - now: The current time.
    ///   - random: A number in 0...1 for delays; evaluated only if needed.
    /// - Returns: What follows for the table, the breaker and the other slots.
    package mutating func finished(
        _ id: RunID,
        _ end: AttemptEnd,
        now: ContinuousClock.Instant,
        random: @autoclosure () -> Double
    ) -> FinishAction {
        guard let run = running.removeValue(forKey: id) else { return FinishAction(ending: .lost) }
        finishedSinceTick += 1
        if run.isSuspect { suspectEnded() }
        var action = FinishAction(ending: .lost)
        switch end {
        case .settled:
            action.ending = .done
            action.transition = answered(run)
        case .lost:
            if run.isProbe { breaker.probeAbandoned() }
        case .verdict(let verdict):
            let verdict = run.isTimedOut && verdict == .cancelled ? .down(after: nil, .timedOut) : verdict
            let outcome: Settlement.Outcome
            (action.ending, outcome) = self.outcome(of: verdict, run, random: random)
            action.settlement = Settlement(
                messageKey: run.reference.messageKey,
                token: run.reference.token,
                outcome: outcome,
                block: run.block
            )
            action.transition = transition(after: verdict, run, now: now, random: random)
            if case .down(_, _?, let failure) = verdict {
                noteHold(failure)
                action.isHeld = true
            }
            if case .pause(let failure) = verdict {
                action.pause = failure
                action.released = setPaused(true)
            }
        }
        switch action.transition {
        case .opened, .reopened, .held: action.released += releaseWaiting()
        case .closed, nil: break
        }
        if run.isLost, action.settlement != nil {
            action.settlement = nil
            action.ending = .lost
        }
        action.wantsClaim = wantsClaim(now: now)
        return action
    }

    /// Whether a claim has room and something to claim.
    func wantsClaim(now: ContinuousClock.Instant) -> Bool {
        (hasMore || hasArrived) && claimLimit(now: now) > 0
    }

    /// The settlement that follows from a verdict.
    private mutating func outcome(
        of verdict: HandlerVerdict,
        _ run: Run,
        random: () -> Double
    ) -> (Ending, Settlement.Outcome) {
        func counted(_ after: Duration?, _ failure: HandlerFailure) -> (Ending, Settlement.Outcome) {
            switch settings.retry.decide(failures: run.attempts + 1, requested: after, random: random()) {
            case .again(let delay): (.retry, .retry(after: delay, failure))
            case .giveUp: (.exhausted, .dead(failure, isCounted: true))
            }
        }
        func handedBack(_ after: Duration?, _ failure: HandlerFailure) -> (Ending, Settlement.Outcome) {
            let delay = Backoff(initial: .seconds(1), maximum: .seconds(60)).delay(attempt: 3, random: random())
            return (.released, .release(after: min(after ?? delay, settings.retry.maximum), noting: failure))
        }
        switch verdict {
        case .done: return (.done, .done)
        case .reject(let failure): return (.rejected, .dead(failure, isCounted: true))
        case .retry(let after, let failure), .down(let after, _, let failure): return counted(after, failure)
        case .unavailable(let after, let failure):
            let isCounted = uncounted.unavailable(run.reference.messageKey)
            return isCounted ? counted(after, failure) : handedBack(after, failure)
        case .interrupted(let failure):
            let isCounted = uncounted.interrupted(run.reference.messageKey)
            return isCounted ? counted(nil, failure) : handedBack(nil, failure)
        case .pause(let failure): return (.released, .release(after: .zero, noting: failure))
        case .cancelled: return (.released, .release(after: .zero))
        }
    }

    /// What a verdict says about the handler.
    private mutating func transition(
        after verdict: HandlerVerdict,
        _ run: Run,
        now: ContinuousClock.Instant,
        random: () -> Double
    ) -> CircuitBreaker.Transition? {
        switch verdict {
        case .done, .reject, .retry: return answered(run)
        case .down(_, let hold?, _): return breaker.held(for: hold, now: now)
        case .down, .unavailable:
            return breaker.failed(isProbe: run.isProbe, now: now, random: random())
        // Says nothing about the handler; after an interruption the next attempt shows whether it can be reached.
        case .interrupted, .pause, .cancelled:
            if run.isProbe { breaker.probeAbandoned() }
            return nil
        }
    }

    /// Records that the handler has answered, so it works.
    private mutating func answered(_ run: Run) -> CircuitBreaker.Transition? {
        uncounted.answered(run.reference.messageKey)
        return breaker.succeeded(isProbe: run.isProbe)
    }
}
