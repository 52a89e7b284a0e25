/// A timer that the caller is asked to set: one at a time, the last one counts.
package struct SessionTimer: Sendable, Equatable {
    /// Told back when the timer fires; a late one is compared and ignored.
    package var id: UInt64
    /// How long from now.
    package var delay: Duration
}

/// Whether the peer is alive: XEP-0199 pings on an idle stream, as a pure value.
///
/// Any byte that comes counts as life. While reading is paused nothing can come, by our own doing: no ping is sent then,
/// and no silence is held against the peer; the interval begins anew when reading resumes.
struct Keepalive: Sendable {
    private enum State {
        /// The peer was heard at the instant held outside, and owes nothing.
        case idle
        /// A ping is under way since this instant.
        case waiting(since: UInt64)
    }

    /// What a fired timer asks for.
    enum Action {
        /// Set the timer again.
        case wait(Duration)
        /// Send a ping, and set the timer for its answer.
        case ping(Duration)
        /// The peer is dead.
        case dead
    }

    private let interval: UInt64
    private let timeout: UInt64
    private var state = State.idle
    private var heardAt: UInt64
    private var pausedSince: UInt64?

    /// A watch over a stream that is bound at this instant.
    ///
    /// - Parameters:
    ///   - interval: How long the peer may be silent before it is asked.
    ///   - timeout: How long it has to answer.
    ///   - now: Nanoseconds of a monotonic clock.
    init(interval: Duration, timeout: Duration, now: UInt64) {
        self.interval = max(interval.nanoseconds, 1_000_000)
        self.timeout = max(timeout.nanoseconds, 1_000_000)
        heardAt = now
    }

    /// Bytes came.
    mutating func heard(now: UInt64) { heardAt = max(heardAt, now) }

    /// Reading was paused or resumed by us.
    mutating func paused(_ paused: Bool, now: UInt64) {
        guard paused != (pausedSince != nil) else { return }
        pausedSince = paused ? now : nil
        state = .idle
        heard(now: now)
    }

    /// Whether reading has been paused for at least so long.
    func isPaused(for duration: Duration, now: UInt64) -> Bool {
        guard let pausedSince else { return false }
        return now >= pausedSince && now - pausedSince >= duration.nanoseconds
    }

    /// The timer fired.
    mutating func timerFired(now: UInt64) -> Action {
        if pausedSince != nil {
            heard(now: now)
            return .wait(.nanoseconds(Int64(clamping: interval)))
        }
        switch state {
        case .waiting(let since) where heardAt <= since:
            let due = since.addingReportingOverflow(timeout).partialValue
            return now < due ? .wait(.nanoseconds(Int64(clamping: due - now))) : .dead
        case .waiting, .idle:
            let due = heardAt.addingReportingOverflow(interval).partialValue
            if now < due {
                state = .idle
                return .wait(.nanoseconds(Int64(clamping: due - now)))
            }
            state = .waiting(since: now)
            return .ping(.nanoseconds(Int64(clamping: timeout)))
        }
    }
}

extension Duration {
    /// The whole nanoseconds of a duration; 0 for a negative one, the largest number for one past 584 years.
    var nanoseconds: UInt64 {
        guard components.seconds >= 0, components.attoseconds >= 0 else { return 0 }
        let (seconds, overflow) = UInt64(components.seconds).multipliedReportingOverflow(by: 1_000_000_000)
        let (sum, carry) = seconds.addingReportingOverflow(UInt64(components.attoseconds / 1_000_000_000))
        return overflow || carry ? .max : sum
    }
}
