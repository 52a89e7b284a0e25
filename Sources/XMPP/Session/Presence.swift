/// Our presence at a standard server, which decides whether it sends us the account's messages or stores them.
///
/// The first presence follows the request for stream management in the greeting, so what the server has stored follows
/// its `<enabled/>` and is counted. While nobody reads, a server would queue in memory and drop messages beyond a limit;
/// while we are unavailable it stores them, and sends them with our next presence.
///
/// A message that a server was about to store while our first presence emptied the store would stay there until the next
/// login. So presence is withdrawn and given once more a few seconds later, in one write. The same after a resumption,
/// as the last presence may not have arrived, or was ``unavailable``.
struct Presence: Sendable {
    private enum State {
        /// A CCS has no presence, and a component's does not matter. The last state.
        case unused
        /// The server stores messages. To `available`.
        case unavailable
        /// The server sends messages. To `unavailable`.
        case available
    }

    /// How long reading may be paused before we become unavailable: longer than any pause of a working database.
    static let longestPause = Duration.seconds(10)
    /// The time from login, or resumption, to the second presence: longer than a server takes to store a message.
    static let refreshDelay = Duration.seconds(5)
    /// The presence that makes the server store messages.
    static var unavailable: [UInt8] { Array("<presence type=\"unavailable\"/>".utf8) }

    /// The presence that makes the server send messages (RFC 6121 section 4.7.2.3); its default priority is 0.
    static func available(_ priority: Int8) -> [UInt8] {
        Array((priority == 0 ? "<presence/>" : "<presence><priority>\(priority)</priority></presence>").utf8)
    }

    private let priority: Int8
    private var state: State
    /// Whether the store has been emptied a second time.
    private var isRefreshed: Bool

    init(_ offer: StreamManagement.Offer, priority: Int8 = 0) {
        self.priority = priority
        state = offer == .unused ? .unused : .available
        isRefreshed = offer == .unused
    }

    var isAvailable: Bool { if case .available = state { true } else { false } }

    var needsRefresh: Bool { !isRefreshed && isAvailable }

    /// Lets the server send: returns the presence to write, if any.
    mutating func becomeAvailable() -> [UInt8]? {
        guard case .unavailable = state else { return nil }
        state = .available
        return Presence.available(priority)
    }

    /// Lets the server store: returns the presence to write, if any.
    mutating func becomeUnavailable() -> [UInt8]? {
        guard case .available = state else { return nil }
        state = .unavailable
        // Coming back empties the store.
        isRefreshed = true
        return Presence.unavailable
    }

    /// Empties the store once more, by two stanzas.
    mutating func refresh() -> [UInt8] {
        isRefreshed = true
        return Presence.unavailable + Presence.available(priority)
    }
}
