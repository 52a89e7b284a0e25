import Vocabulary

/// A timer for the caller to set: one at a time, the last one counts.
package struct SessionTimer: Sendable, Equatable {
    /// Passed back when the timer fires, so that a late one is recognised and ignored.
    package var id: UInt64
    package var delay: Duration
}

/// The bytes that we have written to a connection, by its transport's counters.
package struct SentBytes: Sendable, Equatable {
    /// Those that the peer's machine has acknowledged, since the connection was made.
    package var acked: UInt64
    /// Those that it has not.
    package var waiting: UInt64

    package init(acked: UInt64, waiting: UInt64) {
        self.acked = acked
        self.waiting = waiting
    }
}

/// Checks with XEP-0199 pings that the peer receives what we send, as a pure value (drawn in docs/state-machines.md).
///
/// Only the answer to our own ping is proof: a peer may send for hours while nothing of ours reaches it. A ping may wait
/// behind our acks for a slow peer, so its time begins anew whenever bytes written before it move, and not once they are
/// all there: a proxy takes bytes for a server that is gone. While we pause reading no answer can be read, so the clock
/// stops, and later continues.
struct Keepalive: Sendable {
    private enum State {
        /// Nothing is known: the stream was resumed. To `asked`.
        case unknown
        /// The peer was known at this instant to receive. To `asked`.
        case proven(at: UInt64)
        /// A ping is under way, and has so long from this instant. To `proven`.
        case asked(at: UInt64, limit: UInt64, Backlog?)
    }

    /// What was written before a ping, in ``SentBytes/acked``.
    private struct Backlog {
        /// How far the peer has it.
        var reached: UInt64
        let end: UInt64

        var isMoving: Bool { reached < end }
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
        case .asked(let at, let limit, let backlog): state = .asked(at: at &+ pause, limit: limit, backlog)
        }
    }

    /// Notes that the peer has more of what was written before the ping: the ping's time begins anew.
    mutating func moved(now: UInt64) {
        guard case .asked(_, let limit, let backlog) = state else { return }
        state = .asked(at: now, limit: limit, backlog)
    }

    /// Notes how far the peer has what was written before the ping.
    private mutating func note(_ bytes: SentBytes, now: UInt64) {
        guard case .asked(_, let limit, var backlog?) = state, backlog.isMoving, bytes.acked > backlog.reached else {
            return
        }
        backlog.reached = min(bytes.acked, backlog.end)
        state = .asked(at: now, limit: limit, backlog)
    }

    /// How often the transport's counters are looked at: often, since bytes count as moved only when that is seen.
    private var grain: UInt64 {
        if case .asked(_, let limit, let backlog?) = state, backlog.isMoving { limit / 8 } else { .max }
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
            case .asked(let at, let limit, _): (at, limit)
            }
        let (due, overflow) = at.addingReportingOverflow(span)
        return overflow ? .max : due
    }

    /// Handles the timer, with the transport's counters if it has any.
    mutating func timerFired(now: UInt64, sent bytes: SentBytes? = nil) -> Action {
        guard pausedSince == nil else { return .wait(.nanoseconds(Int64(clamping: interval))) }
        if let bytes { note(bytes, now: now) }
        let due = due
        guard now >= due else { return .wait(.nanoseconds(Int64(clamping: min(due - now, grain)))) }
        switch state {
        case .proven: return ask(now, limit: timeout, bytes)
        // A path that is dead after a resumption is to be noticed by the transport, first: that can be resumed again.
        case .unknown: return ask(now, limit: timeout &* 2, bytes)
        case .asked:
            return .dead
        }
    }

    private mutating func ask(_ now: UInt64, limit: UInt64, _ bytes: SentBytes?) -> Action {
        state = .asked(at: now, limit: limit, bytes.map { Backlog(reached: $0.acked, end: $0.acked &+ $0.waiting) })
        return .ping(.nanoseconds(Int64(clamping: min(limit, grain))))
    }
}
