import Vocabulary

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
/// all there: a proxy takes bytes for a server that is gone. Its answer may wait behind all that a standard server has
/// stored: there it has ``longest`` times as long, until the first stanza of that comes, and its time begins anew with each
/// stanza. While we pause reading no answer can be read, so the clock stops, and later continues.
struct Keepalive: Sendable {
    private enum State {
        /// Nothing is known: the stream was resumed. To `asked`.
        case unknown
        /// The peer was known at this instant to receive. To `asked`.
        case proven(at: UInt64)
        /// A ping is under way. To `proven`.
        case asked(Ping)
    }

    /// A ping that is under way.
    private struct Ping {
        /// When it was sent, by the clock that stops.
        var sentAt: UInt64
        /// The last instant at which the peer was seen to go on, or the one at which it was sent.
        var at: UInt64
        /// How long its answer may take from there.
        let limit: UInt64
        var backlog: Backlog?
        /// Whether the server was asked for its store after it.
        var isOlder = false
    }

    /// What a standard server does with all that it has stored for us.
    private enum Store {
        /// Nothing, as far as we know. To `requested`.
        case idle
        /// It may read all of it before it sends any, or hears us. To `coming`.
        case requested
        /// It sends it; the answer to a ping is its end. To `idle`, `requested`.
        case coming
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

    /// How many times its limit a ping has at most while stanzas come: a peer may send for hours while it is deaf.
    static let longest: UInt64 = 8

    private let interval: UInt64
    private let timeout: UInt64
    private var state: State
    private var store = Store.idle
    private var pausedSince: UInt64?

    /// A watch over a stream that is bound at this instant, in nanoseconds of a monotonic clock, and was not resumed.
    init(interval: Duration, timeout: Duration, now: UInt64, isProven: Bool = true) {
        self.interval = max(interval.nanoseconds, 1_000_000)
        self.timeout = max(timeout.nanoseconds, 1_000_000)
        state = isProven ? .proven(at: now) : .unknown
    }

    /// Whether stanzas count, as signs that the peer goes on.
    var listens: Bool { if case .asked = state { true } else { awaitsStore } }

    /// Notes the answer to the current ping; an unexpected answer proves nothing new.
    mutating func answered(now: UInt64) {
        guard case .asked(let ping) = state else { return }
        state = .proven(at: now)
        if !ping.isOlder { store = .idle }
    }

    /// Notes that the server was asked for what it has stored, or that this comes already.
    mutating func storeRequested(isComing: Bool = false) {
        store = isComing ? .coming : .requested
        guard case .asked(var ping) = state else { return }
        ping.isOlder = true
        state = .asked(ping)
    }

    /// How many times its usual limit the server may leave our bytes where they are: it may be busy with its store.
    var patience: UInt64 { if case .idle = store { 1 } else { Keepalive.longest } }

    private var awaitsStore: Bool { if case .requested = store { true } else { false } }

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
        case .asked(var ping):
            ping.sentAt &+= pause
            ping.at &+= pause
            state = .asked(ping)
        }
    }

    /// Notes a stanza from a peer whose answers may wait behind many: the ping's time begins anew.
    mutating func heard(now: UInt64) {
        if awaitsStore { store = .coming }
        guard case .asked(var ping) = state else { return }
        ping.at = max(ping.at, min(now, ping.sentAt &+ ping.limit &* (Keepalive.longest - 1)))
        state = .asked(ping)
    }

    /// Notes that the peer has more of what was written before the ping: the ping's time begins anew.
    mutating func moved(now: UInt64) {
        guard case .asked(var ping) = state else { return }
        ping.at = now
        state = .asked(ping)
    }

    /// Notes how far the peer has what was written before the ping.
    private mutating func note(_ bytes: SentBytes, now: UInt64) {
        guard case .asked(var ping) = state, var backlog = ping.backlog, backlog.isMoving,
            bytes.acked > backlog.reached
        else { return }
        backlog.reached = min(bytes.acked, backlog.end)
        (ping.at, ping.backlog) = (now, backlog)
        state = .asked(ping)
    }

    /// How often to look, while a ping is under way: bytes count as moved only when that is seen, and a stanza shortens the
    /// time of a server that reads its store.
    private var grain: UInt64 {
        guard case .asked(let ping) = state else { return .max }
        if ping.backlog?.isMoving == true { return ping.limit / 8 }
        return awaitsStore ? ping.limit : .max
    }

    /// When the timer has to fire, or to look before.
    func look(now: UInt64) -> UInt64 { grain == .max ? due : min(due, now &+ grain) }

    func pause(now: UInt64) -> Duration? {
        pausedSince.map { .nanoseconds(Int64(clamping: now > $0 ? now - $0 : 0)) }
    }

    /// When the timer has to fire, unless reading is paused.
    var due: UInt64 {
        func after(_ at: UInt64, _ span: UInt64) -> UInt64 {
            let (due, overflow) = at.addingReportingOverflow(span)
            return overflow ? .max : due
        }
        return switch state {
        case .unknown: 0
        case .proven(let at): after(at, interval)
        case .asked(let ping) where awaitsStore:
            max(after(ping.sentAt, ping.limit &* Keepalive.longest), after(ping.at, ping.limit))
        case .asked(let ping): after(ping.at, ping.limit)
        }
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
        let backlog = bytes.map { Backlog(reached: $0.acked, end: $0.acked &+ $0.waiting) }
        state = .asked(Ping(sentAt: now, at: now, limit: limit, backlog: backlog))
        return .ping(.nanoseconds(Int64(clamping: min(due &- now, grain))))
    }
}
