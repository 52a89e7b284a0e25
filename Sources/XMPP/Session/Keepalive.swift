import Vocabulary

/// A timer for the caller to set: one at a time, the last one counts.
package struct SessionTimer: Sendable, Equatable {
    /// Passed back when the timer fires, so that a late one is recognised and ignored.
    package var id: UInt64
    package var delay: Duration
}

/// Checks with XEP-0199 pings that the peer receives what we send, as a pure value (drawn in docs/state-machines.md).
///
/// Only the answer to our own ping is proof: a peer may send for hours while nothing of ours reaches it. While we pause
/// reading no answer can be read, so the clock stops, and later continues.
struct Keepalive: Sendable {
    private enum State {
        /// Nothing is known: the stream was resumed. To `asked`.
        case unknown
        /// The peer was known at this instant to receive. To `asked`.
        case proven(at: UInt64)
        /// A ping is under way since this instant, and has so long. To `proven`.
        case asked(at: UInt64, limit: UInt64)
    }

    enum Action {
        case wait(Duration)
        case ping(Duration)
        case dead
    }

    private let interval: UInt64
    private let timeout: UInt64
    private var state: State
    private var pausedSince: UInt64?

    /// A watch over a stream that is bound at this instant, in nanoseconds of a monotonic clock, and was not resumed.
    init(interval: Duration, timeout: Duration, now: UInt64, isProven: Bool = true) {
        self.interval = max(interval.nanoseconds, 1_000_000)
        self.timeout = max(timeout.nanoseconds, 1_000_000)
        state = isProven ? .proven(at: now) : .unknown
    }

    /// Notes the answer to the current ping; an unexpected answer proves nothing new.
    mutating func answered(now: UInt64) {
        guard case .asked = state else { return }
        state = .proven(at: now)
    }

    mutating func paused(_ paused: Bool, now: UInt64) {
        guard let since = pausedSince else {
            if paused { pausedSince = now }
            return
        }
        guard !paused else { return }
        pausedSince = nil
        let pause = now > since ? now - since : 0
        switch state {
        case .unknown: break
        case .proven(let at): state = .proven(at: at &+ pause)
        case .asked(let at, let limit): state = .asked(at: at &+ pause, limit: limit)
        }
    }

    func pause(now: UInt64) -> Duration? {
        pausedSince.map { .nanoseconds(Int64(clamping: now > $0 ? now - $0 : 0)) }
    }

    /// When the timer has to fire, unless reading is paused.
    var due: UInt64 {
        let (at, span): (UInt64, UInt64) =
            switch state {
            case .unknown: (0, 0)
            case .proven(let at): (at, interval)
            case .asked(let at, let limit): (at, limit)
            }
        let (due, overflow) = at.addingReportingOverflow(span)
        return overflow ? .max : due
    }

    mutating func timerFired(now: UInt64) -> Action {
        guard pausedSince == nil else { return .wait(.nanoseconds(Int64(clamping: interval))) }
        let due = due
        guard now >= due else { return .wait(.nanoseconds(Int64(clamping: due - now))) }
        switch state {
        case .proven: return ask(now, limit: timeout)
        // A path that is dead after a resumption is to be noticed by the transport, first: that can be resumed again.
        case .unknown: return ask(now, limit: timeout &* 2)
        case .asked:
            return .dead
        }
    }

    private mutating func ask(_ now: UInt64, limit: UInt64) -> Action {
        state = .asked(at: now, limit: limit)
        return .ping(.nanoseconds(Int64(clamping: limit)))
    }
}
