/// Something that goes wrong at a moment.
struct Fault: Equatable {
    /// The kinds, as the command line names them.
    enum Kind: String, CaseIterable {
        /// The network resets a connection.
        case cut
        /// The network swallows everything on a connection, and tells nobody; the server gives up after the time.
        case halfOpen
        /// A connection passes a few bytes at a time.
        case trickle
        case refuseConnections, ignoreConnections
        /// The server ends a stream.
        case close
        case drain
        /// The server delivers messages again, over any stream.
        case repeatMessages
        /// The server sends more than its window allows.
        case flood
        case databaseDown, databaseStalls
        /// The replies to statements are lost: they were applied, or not.
        case loseReplies
        /// The server raises errors, a class each.
        case raiseErrors
        case readOnly, diskFull
        /// The standby is away, or takes over with some commits that it had not confirmed.
        case standbyAway, failOver
        /// The standby is away, and waits for it are broken off; then it is back, or takes over without what it lacks.
        case unconfirmed
        /// The database's clock jumps ahead. Set back, what was stored before would be due in the future: nothing is
        /// promised then.
        case databaseClock
        /// A worker's wall clock jumps.
        case workerClock
        case handlerFails, handlerHangs
        /// An operator pauses a handler, then resumes it.
        case pause
        /// The database forgets what workers have registered, as a restored backup does.
        case forget
        /// A worker dies, and another one starts in its place.
        case kill
        case freeze
        /// A worker stops in an orderly way, and starts again.
        case restart
        /// The server restarts in order, or crashes.
        case serverRestart
        /// A standard server refuses to go on with lost sessions.
        case refuseResumption
        /// An operator replays what a handler has done.
        case replay

        /// Those that every run may have: the same are drawn for a seed as before there were others.
        static let usual = allCases.filter { ![.serverRestart, .refuseResumption, .replay].contains($0) }
        /// Those that leave the database and processes alone.
        static let outside: Set<Kind> = [
            .cut, .halfOpen, .trickle, .refuseConnections, .ignoreConnections, .close, .drain, .repeatMessages, .flood,
            .workerClock, .handlerFails, .handlerHangs, .pause, .restart, .serverRestart, .refuseResumption,
            .replay,
        ]

        static var names: String { allCases.map(\.rawValue).joined(separator: ", ") }

        /// How long it lasts, or how far it goes.
        var times: (least: Duration, most: Duration) {
            switch self {
            case .trickle, .flood, .unconfirmed: (.milliseconds(10), .seconds(5))
            case .databaseStalls, .freeze, .drain: (.milliseconds(1), .seconds(90))
            case .halfOpen, .handlerHangs: (.milliseconds(10), .seconds(60))
            case .databaseClock, .workerClock: (.milliseconds(1), .seconds(100_000))
            default: (.milliseconds(1), .seconds(20))
            }
        }

        /// How many it concerns at the most.
        var most: Int { self == .repeatMessages ? 100 : 5 }
    }

    /// Nanoseconds since the start.
    let at: UInt64
    let kind: Kind
    /// Chooses whom it strikes, whoever is there by then.
    let draw: UInt64
    let time: Duration
    let count: Int
    /// One of two forms, where it has two.
    let isOther: Bool

    /// A fault of a kind, by a seeded generator.
    init(_ kind: Kind, at: UInt64, _ random: inout SplitMix) {
        (self.at, self.kind) = (at, kind)
        draw = random.next()
        time = random.time(kind.times.least, kind.times.most)
        count = 1 + random.below(kind.most)
        isOther = random.chance(0.6)
    }

    /// Whether deliveries that a worker holds count as ended by its crash: it dies, or is taken for dead, as while it can't
    /// extend leases.
    func breaksLeases(of length: Duration) -> Bool {
        // A lease may be near its end, and is extended when half of it is over.
        kind == .kill || [.freeze, .databaseClock, .databaseStalls, .databaseDown].contains(kind) && time > length / 4
    }
}
