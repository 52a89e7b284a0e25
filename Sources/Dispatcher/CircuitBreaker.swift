package import Telemetry
package import Vocabulary

/// A circuit breaker: stops delivering to a handler that is down, and probes it until it works again.
///
/// Only failures of the handler itself count: no connection, a timeout, an answer that it is overloaded, a program that
/// can't be started. An answer that rejects one message counts as a success, as the handler works.
///
/// - *closed*: everything passes; `threshold` failures without a success in between → *open*.
/// - *open*: nothing passes until its time is over → *half-open*. Each round lasts longer than the one before. *Held*
///   is the same, for the time that the handler asked for.
/// - *half-open*: one attempt at a time passes, as a probe: success → *closed*, failure → *open*.
///
/// What another worker has found out makes it doubt its own state: *closed* and *open*, but not *held*, become half-open,
/// so that one attempt here decides. So a handler that is down everywhere is found down everywhere, and one that fails in
/// one worker alone goes on in the others. Until then it counts as closed for people, and takes back a doubt that the
/// others take back: a worker may be without messages for long.
///
/// A success closes it from any state, except that *held* is closed only by a probe's, as other attempts began before
/// the handler asked for its pause. Failures of attempts that began before it opened say nothing new and are ignored.
package struct CircuitBreaker: Sendable {
    /// The conditions for opening, and the duration.
    package struct Settings: Sendable {
        package var threshold = 20
        /// How long it stays open, by round: a probe every ten seconds burdens no handler that is down, and if bad
        /// messages opened the breaker, good ones wait no longer.
        package var pause = Backoff(initial: .seconds(2), maximum: .seconds(10))

        package init() {}
    }

    package enum Admission: Sendable, Equatable {
        case pass
        /// As a probe, which decides whether the breaker closes.
        case probe
        /// Not before this time; nil while a probe is under way.
        case refused(until: ContinuousClock.Instant?)
    }

    /// A change of state, to be logged.
    package enum Transition: Sendable, Equatable {
        /// Nothing is delivered until the time is over.
        case opened(for: Duration)
        /// The probe failed; the pause is longer.
        case reopened(for: Duration)
        case held(for: Duration)
        case closed
        /// The handler fails in another worker, and works here.
        case confirmed
    }

    private enum State: Sendable, Equatable {
        case closed(failures: Int)
        case open(until: FixedInstant, round: Int, isHeld: Bool)
        case halfOpen(isProbing: Bool, round: Int)
    }

    private let settings: Settings
    private var state = State.closed(failures: 0)
    /// Whether it is half-open at another worker's word.
    package private(set) var isDoubted = false

    package init(_ settings: Settings = Settings()) {
        self.settings = settings
    }

    package var isClosed: Bool {
        if case .closed = state { return true }
        return false
    }

    /// The current phase, and, if open, when the next probe may begin.
    package func phase(now: ContinuousClock.Instant) -> (CircuitState, probe: ContinuousClock.Instant?) {
        switch admission(now: now) {
        case .pass: (.closed, nil)
        case .probe where isOnlyDoubted, .refused(nil) where isOnlyDoubted: (.closed, nil)
        case .refused(let until?): (.open, until)
        case .probe, .refused(nil): (.halfOpen, nil)
        }
    }

    /// Whether an attempt may begin; does not begin one.
    package func admission(now: ContinuousClock.Instant) -> Admission {
        switch state {
        case .closed: .pass
        case .open(let until, _, _):
            now >= until.wrappedValue ? .probe : .refused(until: until.wrappedValue)
        case .halfOpen(let isProbing, _): isProbing ? .refused(until: nil) : .probe
        }
    }

    package mutating func begin(now: ContinuousClock.Instant) -> Admission {
        let admission = admission(now: now)
        if admission == .probe { state = .halfOpen(isProbing: true, round: round) }
        return admission
    }

    /// Records that an attempt ended with an answer of the handler.
    package mutating func succeeded(isProbe: Bool = false) -> Transition? {
        if case .open(_, _, isHeld: true) = state, !isProbe { return nil }
        defer { reset() }
        guard !isClosed else { return nil }
        return isOnlyDoubted ? .confirmed : .closed
    }

    /// Records that the handler asked for a pause, then to be probed; returns whether this began or lengthened one.
    package mutating func held(for pause: Duration, now: ContinuousClock.Instant) -> Transition? {
        let end = now + pause
        isDoubted = false
        if case .open(let until, let round, _) = state {
            state = .open(until: FixedInstant(max(until.wrappedValue, end)), round: round, isHeld: true)
            return nil
        }
        state = .open(until: FixedInstant(end), round: round, isHeld: true)
        return .held(for: pause)
    }

    /// Records that an attempt ended in a failure of the handler; returns whether the breaker opened.
    ///
    /// `random`, in 0...1, sets the length of the pause; half of the longest pause is certain.
    package mutating func failed(isProbe: Bool, now: ContinuousClock.Instant, random: Double) -> Transition? {
        switch state {
        case .closed(let failures) where failures + 1 < settings.threshold:
            state = .closed(failures: failures + 1)
            return nil
        case .closed:
            return .opened(for: open(round: 1, now: now, random: random))
        case .halfOpen(_, let round) where isProbe:
            let isFirst = isOnlyDoubted
            let pause = open(round: round + 1, now: now, random: random)
            return isFirst ? .opened(for: pause) : .reopened(for: pause)
        case .open, .halfOpen:
            return nil
        }
    }

    /// The end of a pause that the handler asked for; nil without one.
    package var heldUntil: ContinuousClock.Instant? {
        guard case .open(let until, _, isHeld: true) = state else { return nil }
        return until.wrappedValue
    }

    /// Closes the breaker at an operator's request.
    package mutating func reset() {
        state = .closed(failures: 0)
        isDoubted = false
    }

    /// Whether it was closed when another worker's word made it half-open.
    private var isOnlyDoubted: Bool { isDoubted && round == 0 }

    /// Takes another worker's word that the handler fails, or works again; returns whether that changes anything.
    package mutating func doubt(isOpen: Bool) -> Bool {
        if !isOpen, trust() { return true }
        switch state {
        case .closed where isOpen: state = .halfOpen(isProbing: false, round: 0)
        case .open(_, let round, isHeld: false) where !isOpen: state = .halfOpen(isProbing: false, round: round)
        case .closed, .open, .halfOpen: return false
        }
        isDoubted = true
        return true
    }

    /// Takes back a doubt for which there is no reason any more; returns whether there was one.
    package mutating func trust() -> Bool {
        guard isOnlyDoubted, case .halfOpen(isProbing: false, _) = state else { return false }
        reset()
        return true
    }

    /// Records that a probe ended without a verdict: another may begin.
    package mutating func probeAbandoned() {
        if case .halfOpen(_, let round) = state { state = .halfOpen(isProbing: false, round: round) }
    }

    private var round: Int {
        switch state {
        case .closed: 0
        case .open(_, let round, _), .halfOpen(_, let round): round
        }
    }

    private mutating func open(round: Int, now: ContinuousClock.Instant, random: Double) -> Duration {
        isDoubted = false
        let pause = settings.pause.delay(attempt: round, random: 0.5 + random / 2)
        state = .open(until: FixedInstant(now + pause), round: round, isHeld: false)
        return pause
    }
}
