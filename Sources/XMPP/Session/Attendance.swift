/// Whether a standard server sends us what comes for our account, or stores it: what our presence says.
///
/// ```
/// unused
/// away ──stream management decided──▶ present ──reading paused for long──▶ away ──reading again──▶ present
/// ```
/// While the database can't commit, the server would go on to queue what nobody reads, in memory and within a bound
/// beyond which it forgets. Away, it goes to the offline store, and comes with our next presence on the same stream.
struct Attendance: Sendable {
    private enum State {
        /// A CCS knows no presence. The last state.
        case unused
        /// The server stores. To `present`.
        case away
        /// The server sends. To `away`.
        case present
    }

    /// How long reading may be paused before we leave: longer than any pause of a database that works.
    static let patience = Duration.seconds(10)

    private var state: State

    /// Presence as the negotiation leaves it: a server without stream management has had ours.
    init(_ offer: StreamManagement.Offer) {
        state =
            switch offer {
            case .unused: .unused
            case .missing: .present
            case .offered: .away
            }
    }

    /// Whether the server sends.
    var isPresent: Bool { if case .present = state { true } else { false } }

    /// The server may send: whether it is to be told.
    mutating func come() -> Bool {
        guard case .away = state else { return false }
        state = .present
        return true
    }

    /// The server should store: whether it is to be told.
    mutating func leave() -> Bool {
        guard case .present = state else { return false }
        state = .away
        return true
    }
}
