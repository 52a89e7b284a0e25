import Vocabulary

/// Our presence at a standard server, which decides whether it sends us the account's messages or stores them.
///
/// The first presence follows the request for stream management in the greeting, so what the server has stored follows
/// its `<enabled/>` and is counted. While nobody reads, a server would queue in memory and drop messages beyond a limit;
/// while we are unavailable it stores them, and sends them with our next presence.
///
/// A message that a server was about to store while our presence emptied the store would stay there until the next login.
/// So presence is withdrawn and given once more a few seconds later, in one write. The same after a resumption, as the last
/// presence may not have arrived, or was ``unavailable``.
///
/// When to withdraw follows from what the server's queue can still hold of the measured inflow. Each return empties the
/// store, so one soon after another waits longer (hysteresis): a database that stalls again and again must not have the
/// server store and send everything twice.
struct Presence: Sendable {
    private enum State {
        /// A CCS has no presence, and a component's does not matter. The last state.
        case unused
        /// The server sends messages. To `unavailable`.
        case available
        /// The server stores messages since an instant; reading has gone on since another, nil before. To `available`.
        case unavailable(since: UInt64, readingSince: UInt64?)
    }

    /// The longest pause of reading before we become unavailable, however much the server's queue holds.
    static let longestPause = Duration.seconds(10)
    /// The shortest one: a working database commits faster.
    static let shortestPause = Duration.milliseconds(250)
    /// The least inflow that is reckoned with, in messages a second: devices may wake during a pause.
    static let leastInflow = 100
    /// The time that reading must go on before we return; doubled while a return is followed by another withdrawal
    /// within ``memory``, up to ``longestCalm``.
    static let shortestCalm = Duration.seconds(1)
    static let longestCalm = Duration.seconds(30)
    static let memory = Duration.seconds(60)
    /// The time from login, resumption or return to the second presence: longer than a server takes to store a message.
    static let refreshDelay = Duration.seconds(5)
    /// The presence that makes the server store messages.
    static var unavailable: [UInt8] { Array("<presence type=\"unavailable\"/>".utf8) }

    /// The presence that makes the server send messages (RFC 6121 section 4.7.2.3); its default priority is 0.
    static func available(_ priority: Int8) -> [UInt8] {
        Array((priority == 0 ? "<presence/>" : "<presence><priority>\(priority)</priority></presence>").utf8)
    }

    private let priority: Int8
    /// How many unacknowledged stanzas the server keeps.
    private let queue: Int
    private var state: State
    /// Whether the store has been emptied a second time since then.
    private var isRefreshed: Bool
    private var calm = Presence.shortestCalm
    private(set) var returnedAt: UInt64?
    private var inflow = Inflow()

    init(_ offer: StreamManagement.Offer, priority: Int8 = 0, queue: Int = StreamSettings.usualQueue) {
        self.priority = priority
        self.queue = queue
        state = offer == .unused ? .unused : .available
        isRefreshed = offer == .unused
    }

    var isAvailable: Bool { if case .available = state { true } else { false } }

    var isUsed: Bool { if case .unused = state { false } else { true } }

    var needsRefresh: Bool { !isRefreshed && isAvailable }

    /// Counts a message that came.
    mutating func took(now: UInt64) { inflow.took(now: now) }

    /// How long reading may pause: until the inflow has filled half of what the server's queue can hold beside the
    /// messages in flight, since the inflow may double.
    func patience(inFlight: Int, pausedAt: UInt64) -> Duration {
        let room = max(queue - inFlight, 0) / 2
        let inflow = max(inflow.rate(at: pausedAt), Presence.leastInflow)
        return min(max(.milliseconds(room * 1000 / inflow), Presence.shortestPause), Presence.longestPause)
    }

    /// Notes that reading goes on after such a pause.
    mutating func readingResumed(after pause: Duration, now: UInt64) {
        guard case .unavailable(let start, let since) = state, since == nil || pause >= Presence.shortestPause else {
            return
        }
        state = .unavailable(since: start, readingSince: now)
    }

    /// When to become available again, unless reading pauses until then; nil if we are, or reading is paused.
    var returnDue: UInt64? {
        guard case .unavailable(_, let since?) = state else { return nil }
        return since &+ calm.nanoseconds
    }

    /// Whether the inflow may have filled half of the server's queue while we were unavailable: all of that comes at once
    /// with our next presence.
    func mayOverflow(now: UInt64) -> Bool {
        guard case .unavailable(let start, _) = state else { return false }
        let inflow = max(inflow.rate(at: start), Presence.leastInflow)
        return Int(clamping: (now &- start) / 1_000_000) * inflow / 1000 > queue / 2
    }

    /// Lets the server send: returns the presence to write, if any.
    mutating func becomeAvailable(now: UInt64) -> [UInt8]? {
        guard case .unavailable = state else { return nil }
        state = .available
        (returnedAt, isRefreshed) = (now, false)
        return Presence.available(priority)
    }

    /// Lets the server store: returns the presence to write, if any.
    mutating func becomeUnavailable(now: UInt64) -> [UInt8]? {
        guard case .available = state else { return nil }
        state = .unavailable(since: now, readingSince: nil)
        let isSoon = returnedAt.map { now &- $0 < Presence.memory.nanoseconds } ?? false
        calm = isSoon ? min(calm * 2, Presence.longestCalm) : Presence.shortestCalm
        return Presence.unavailable
    }

    /// Empties the store once more, by two stanzas.
    mutating func refresh() -> [UInt8] {
        isRefreshed = true
        return Presence.unavailable + Presence.available(priority)
    }
}

/// The rate at which messages come, by the last whole second and the present one.
struct Inflow: Sendable {
    private static let second = 1_000_000_000
    private var since: UInt64 = 0
    private var count = 0
    private var previous = 0

    mutating func took(now: UInt64) {
        let elapsed = Int(clamping: now &- since)
        if elapsed >= Inflow.second {
            previous = Inflow.rate(count, in: elapsed)
            (since, count) = (now, 0)
        }
        count += 1
    }

    /// Messages a second up to this instant: the greater of both, since too many harm less than too few.
    func rate(at now: UInt64) -> Int {
        // A burst shorter than that is not taken for a rate.
        max(previous, Inflow.rate(count, in: max(Int(clamping: now &- since), Inflow.second / 10)))
    }

    private static func rate(_ count: Int, in time: Int) -> Int { count * 1000 / max(time / 1_000_000, 1) }
}
