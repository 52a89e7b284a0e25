package import UpstreamKit
package import Vocabulary

// The end of an attempt: what follows for the table, the circuit breaker and the other slots.
extension DispatchStateMachine {
    package struct FinishAction: Sendable, Equatable {
        /// Nil if the lease was lost: another worker holds it now, and decides.
        package var ending: AttemptOutcome?
        /// The settlement for the table; nil if the lease was lost, or the row is settled already.
        package var settlement: Settlement?
        package var transition: CircuitBreaker.Transition?
        /// Why the handler is to be paused in the database, if it is.
        package var pause: HandlerFailure?
        /// Whether the handler asked for a pause that other workers must learn of.
        package var isHeld = false
        /// Whether the circuit changed so that other workers must learn of it.
        package var isCircuitUntold = false
        /// Waiting deliveries to release, as the breaker opened or the handler was paused.
        package var released: [Settlement] = []
        /// Whether a claim has room and something to claim.
        package var wantsClaim = false
    }

    /// Records the end of an attempt; `random`, a number in 0...1 for delays, is evaluated only if needed.
    package mutating func finished(
        _ id: RunID,
        _ end: AttemptEnd,
        now: ContinuousClock.Instant,
        random: @autoclosure () -> Double
    ) -> FinishAction {
        guard let run = running.removeValue(forKey: id) else { return FinishAction() }
        finishedSinceTick += 1
        if run.leadsReplayed { replay.running -= 1 }
        let isDoubted = breaker.isDoubted
        if run.delivery.isSuspect { suspectEnded() }
        var action = FinishAction()
        switch end {
        case .settled:
            action.ending = .done
            action.transition = transition(after: .done, run, now: now, random: random)
        case .lost:
            if run.isProbe { breaker.probeAbandoned() }
        case .alone:
            if run.isProbe { breaker.probeAbandoned() }
            action.ending = .released
            var delivery = run.delivery
            delivery.isAlone = true
            if mode == .active, !run.isLost {
                waiting.append(delivery, isFresh: false)
                // Another message of the call may have opened the breaker.
                action.released = releaseRefused(now: now)
            } else {
                action.settlement = delivery.settled(.release(after: .zero))
            }
        case .verdict(let verdict):
            let verdict = run.timedOut != nil && verdict == .cancelled ? .down(after: nil, .timedOut) : verdict
            let outcome: Settlement.Outcome
            (action.ending, outcome) = self.outcome(of: verdict, run, random: random)
            action.settlement = run.delivery.settled(outcome)
            action.transition = transition(after: verdict, run, now: now, random: random)
            if case .down(_, _?, let failure) = verdict {
                untoldHold = failure.logText
                action.isHeld = true
            }
            if case .pause(let failure) = verdict {
                action.pause = failure
                action.released = setPaused(true)
            }
        }
        switch action.transition {
        case .opened, .reopened, .held: action.released += releaseWaiting()
        case .closed, .confirmed, nil: break
        }
        // What came of others' word is no news to them.
        if !isDoubted { action.isCircuitUntold = tell(action.transition) }
        if run.isLost, action.settlement != nil {
            action.settlement = nil
            action.ending = nil
        }
        action.wantsClaim = wantsClaim(now: now)
        return action
    }

    /// Notes a change of the circuit for other workers; returns whether there is one.
    private mutating func tell(_ transition: CircuitBreaker.Transition?) -> Bool {
        switch transition {
        case .opened: untoldCircuit = true
        case .closed: untoldCircuit = false
        case .reopened, .held, .confirmed, nil: return false
        }
        return true
    }

    private mutating func outcome(
        of verdict: HandlerVerdict,
        _ run: Run,
        random: () -> Double
    ) -> (AttemptOutcome, Settlement.Outcome) {
        func counted(_ after: Duration?, _ failure: HandlerFailure) -> (AttemptOutcome, Settlement.Outcome) {
            let delay = settings.registration.retry
                .delay(failures: run.delivery.attempts + 1, requested: after, random: random())
            return delay.map { (.retry, .retry(after: $0, failure)) } ?? (.exhausted, .dead(failure, isCounted: true))
        }
        func handedBack(_ after: Duration?, _ failure: HandlerFailure) -> (AttemptOutcome, Settlement.Outcome) {
            let delay = Backoff(initial: .seconds(1), maximum: .seconds(60)).delay(attempt: 3, random: random())
            return (
                .released, .release(after: min(after ?? delay, settings.registration.retry.maximum), noting: failure)
            )
        }
        switch verdict {
        case .done: return (.done, .done)
        case .reject(let failure): return (.rejected, .dead(failure, isCounted: true))
        case .retry(let after, let failure), .down(let after, _, let failure): return counted(after, failure)
        case .unavailable(let after, let failure):
            let isCounted = uncounted.unavailable(run.delivery.messageKey)
            return isCounted ? counted(after, failure) : handedBack(after, failure)
        case .interrupted(let failure):
            let isCounted = uncounted.interrupted(run.delivery.messageKey)
            return isCounted ? counted(nil, failure) : handedBack(nil, failure)
        case .pause(let failure): return (.released, .release(after: .zero, noting: failure))
        case .cancelled: return (.released, .release(after: .zero))
        }
    }

    private mutating func transition(
        after verdict: HandlerVerdict,
        _ run: Run,
        now: ContinuousClock.Instant,
        random: () -> Double
    ) -> CircuitBreaker.Transition? {
        switch verdict {
        case .done: failedInRow = 0
        case .reject, .retry, .down, .unavailable, .interrupted: failedInRow += 1
        case .pause, .cancelled: break
        }
        switch verdict {
        case .done, .reject, .retry: return answered(run)
        case .down(_, let hold?, _): return breaker.held(for: hold, now: now)
        case .down(_, nil, let failure), .unavailable(_, let failure):
            lastFailure = failure
            return breaker.failed(isProbe: run.isProbe, now: now, random: random())
        // Says nothing about the handler; after an interruption the next attempt shows whether it can be reached.
        case .interrupted, .pause, .cancelled:
            if run.isProbe { breaker.probeAbandoned() }
            return nil
        }
    }

    private mutating func answered(_ run: Run) -> CircuitBreaker.Transition? {
        uncounted.answered(run.delivery.messageKey)
        return breaker.succeeded(isProbe: run.isProbe)
    }
}

extension RetryPolicy {
    /// The delay after this many failed attempts; nil if they are used up.
    ///
    /// `requested` is the shortest wait that the handler asked for; ``maximum`` caps it. `random`, in 0...1, is the
    /// fraction of the longest wait to take (full jitter).
    package func delay(failures: Int, requested: Duration?, random: Double) -> Duration? {
        guard failures < maxAttempts else { return nil }
        let delay = Backoff(initial: initial, maximum: maximum).delay(attempt: failures, random: random)
        return min(max(requested ?? .zero, delay), maximum)
    }
}

/// Counts releases of each message without a counted attempt, so that none is released for ever.
///
/// In memory only: after a restart the count begins again, which costs a few more attempts.
struct UncountedAttempts: Sendable {
    /// How many attempts at one message are not counted.
    static let limit = 3

    /// How many messages are remembered; beyond this, all are forgotten.
    static let capacity = 4_096

    private struct Entry: Sendable {
        var count: Int
        /// The value of ``handled`` at the last of them.
        var handled: Int
    }

    private var entries: [Digest128: Entry] = [:]
    private var handled = 0

    mutating func answered(_ key: Digest128) {
        handled += 1
        if !entries.isEmpty { entries[key] = nil }
    }

    /// Records that the handler could not begin; returns whether to count the attempt, as it took others between these.
    mutating func unavailable(_ key: Digest128) -> Bool {
        var entry = entries[key] ?? Entry(count: 0, handled: -1)
        if entry.handled < handled { entry.count += 1 }
        return note(key, entry)
    }

    /// Records that the handler was interrupted with it; returns whether to count that: no outage hits one so often.
    mutating func interrupted(_ key: Digest128) -> Bool {
        var entry = entries[key] ?? Entry(count: 0, handled: -1)
        entry.count += 1
        return note(key, entry)
    }

    private mutating func note(_ key: Digest128, _ entry: Entry) -> Bool {
        if entries.count >= Self.capacity, entries[key] == nil { entries = [:] }
        entries[key] = Entry(count: min(entry.count, Self.limit + 1), handled: handled)
        return entry.count > Self.limit
    }
}
