import Vocabulary

/// Our presence at a standard server: whether it sends us the account's messages or stores them.
///
/// ```
/// unused
/// available ──reading paused for long──▶ unavailable ──reading again──▶ available
/// ```
/// The first presence is part of the greeting, right behind the request for stream management: the server takes them in that
/// order, so what it has stored comes behind its `<enabled/>` and is counted.
///
/// While the database can't commit, the server would queue what nobody reads, in memory and up to a limit beyond which it
/// drops messages. While we are unavailable it keeps them in the offline store, and sends them with our next presence on the
/// same stream.
///
/// A message that a server was about to store while our first presence emptied the store would stay there until the next
/// login. So presence is withdrawn and given once more a few seconds later, in one write: that empties the store again. The same
/// where the stream goes on over another connection: whether the last presence got through the one that was lost, or was
/// ``unavailable``, is not known then.
struct Presence: Sendable {
    private enum State {
        /// A CCS has no presence, and a component none that matters. The last state.
        case unused
        /// The server stores. To `available`.
        case unavailable
        /// The server sends. To `unavailable`.
        case available
    }

    /// How long reading may be paused before we become unavailable: longer than any pause of a working database.
    static let longestPause = Duration.seconds(10)
    /// How long after the login, or the resumption, presence is given once more: longer than a server's storing takes.
    static let refreshDelay = Duration.seconds(5)
    /// What tells the server to store them instead.
    static var unavailable: [UInt8] { Array("<presence type=\"unavailable\"/>".utf8) }

    /// What tells the server that we take messages (RFC 6121 section 4.7.2.3).
    ///
    /// - Parameter priority: Ours among the resources of the account; 0 is what a server assumes.
    /// - Returns: The stanza.
    static func available(_ priority: Int8) -> [UInt8] {
        Array((priority == 0 ? "<presence/>" : "<presence><priority>\(priority)</priority></presence>").utf8)
    }

    private let priority: Int8
    private var state: State
    /// Whether the store has been emptied a second time.
    private var isRefreshed: Bool

    /// Presence as the greeting leaves it.
    ///
    /// - Parameters:
    ///   - offer: What is known of the server.
    ///   - priority: Our priority.
    init(_ offer: StreamManagement.Offer, priority: Int8 = 0) {
        self.priority = priority
        state = offer == .unused ? .unused : .available
        isRefreshed = offer == .unused
    }

    /// Whether the server sends.
    var isAvailable: Bool { if case .available = state { true } else { false } }

    /// Whether presence is to be given once more.
    var needsRefresh: Bool { !isRefreshed && isAvailable }

    /// The server may send: what to tell it, if anything.
    mutating func becomeAvailable() -> [UInt8]? {
        guard case .unavailable = state else { return nil }
        state = .available
        return Presence.available(priority)
    }

    /// The server shall store: what to tell it, if anything.
    mutating func becomeUnavailable() -> [UInt8]? {
        guard case .available = state else { return nil }
        state = .unavailable
        // Coming back empties the store.
        isRefreshed = true
        return Presence.unavailable
    }

    /// Empties the store once more: two stanzas.
    mutating func refresh() -> [UInt8] {
        isRefreshed = true
        return Presence.unavailable + Presence.available(priority)
    }
}
