/// Our presence at a standard server: whether it sends us the account's messages or stores them.
///
/// ```
/// unused
/// unavailable ──stream management decided──▶ available ──reading paused for long──▶ unavailable ──reading again──▶ available
/// ```
/// While the database can't commit, the server would queue what nobody reads, in memory and up to a limit beyond which it
/// drops messages. While we are unavailable it keeps them in the offline store, and sends them with our next presence on the
/// same stream.
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
    /// What tells the server that we take messages.
    static var available: [UInt8] { Array("<presence/>".utf8) }
    /// What tells the server to store them instead.
    static var unavailable: [UInt8] { Array("<presence type=\"unavailable\"/>".utf8) }

    private var state: State

    /// Presence as the negotiation leaves it: to a server without stream management, ours has already been sent.
    init(_ offer: StreamManagement.Offer) {
        state =
            switch offer {
            case .unused: .unused
            case .missing: .available
            case .offered: .unavailable
            }
    }

    /// Whether the server sends.
    var isAvailable: Bool { if case .available = state { true } else { false } }

    /// The server may send: true where it has to be told.
    mutating func becomeAvailable() -> Bool {
        guard case .unavailable = state else { return false }
        state = .available
        return true
    }

    /// The server shall store: true where it has to be told.
    mutating func becomeUnavailable() -> Bool {
        guard case .available = state else { return false }
        state = .unavailable
        return true
    }
}
