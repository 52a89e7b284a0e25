/// Something that goes wrong at a moment; `draw` chooses whom it strikes, whoever is there by then.
enum Fault: Equatable {
    /// The network resets a connection.
    case cut(draw: UInt64)
    /// The network swallows everything on a connection, and tells nobody.
    case halfOpen(draw: UInt64, serverPatience: Duration)
    /// A connection passes a few bytes at a time.
    case trickle(draw: UInt64, time: Duration)
    case refuseConnections(time: Duration)
    case ignoreConnections(time: Duration)
    /// The server ends a stream.
    case close(draw: UInt64)
    case drain(draw: UInt64, patience: Duration)
    /// The server delivers messages again, over any stream.
    case repeatMessages(count: Int)
    /// The server sends more than its window allows.
    case flood(time: Duration)
    case databaseDown(time: Duration)
    case databaseStalls(time: Duration)
    /// The replies to statements are lost: they were applied, or not.
    case loseReplies(count: Int, ofWriters: Bool)
    /// The server raises errors, a class each.
    case raiseErrors(count: Int, ofWriters: Bool)
    case readOnly(time: Duration)
    case diskFull(time: Duration)
    /// The standby is away, or takes over with some commits that it had not confirmed.
    case standbyAway(time: Duration)
    case failOver(more: Int)
    /// The standby is away, and waits for it are broken off; then it is back, or takes over without what it lacks.
    case unconfirmed(time: Duration, takesOver: Bool)
    /// The database's clock jumps ahead. Set back, what was stored before would be due in the future: nothing is
    /// promised then.
    case databaseClock(ahead: Duration)
    /// A worker's wall clock jumps.
    case workerClock(draw: UInt64, offset: Duration)
    case handlerFails(draw: UInt64, time: Duration)
    case handlerHangs(draw: UInt64, time: Duration)
    case kill(draw: UInt64, restart: Duration)
    case freeze(draw: UInt64, time: Duration)
    /// A worker stops in an orderly way, and starts again.
    case restart(draw: UInt64)

    /// The kinds, as the command line names them.
    enum Kind: String, CaseIterable {
        case cut, halfOpen, trickle, refuseConnections, ignoreConnections, close, drain, repeatMessages, flood
        case databaseDown, databaseStalls, loseReplies, raiseErrors, readOnly, diskFull, standbyAway, failOver
        case unconfirmed, databaseClock, workerClock, handlerFails, handlerHangs, kill, freeze, restart

        static var names: String { allCases.map(\.rawValue).joined(separator: ", ") }
    }

    /// A fault of a kind, by a seeded generator.
    static func draw(_ kind: Kind, _ random: inout SplitMix) -> Fault {
        let draw = random.next()
        return switch kind {
        case .cut: .cut(draw: draw)
        case .halfOpen: .halfOpen(draw: draw, serverPatience: random.time(.milliseconds(100), .seconds(60)))
        case .trickle: .trickle(draw: draw, time: random.time(.milliseconds(10), .seconds(5)))
        case .refuseConnections: .refuseConnections(time: random.time(.milliseconds(10), .seconds(20)))
        case .ignoreConnections: .ignoreConnections(time: random.time(.milliseconds(10), .seconds(20)))
        case .close: .close(draw: draw)
        case .drain: .drain(draw: draw, patience: random.time(.milliseconds(10), .seconds(90)))
        case .repeatMessages: .repeatMessages(count: 1 + random.below(100))
        case .flood: .flood(time: random.time(.milliseconds(10), .seconds(5)))
        case .databaseDown: .databaseDown(time: random.time(.milliseconds(1), .seconds(20)))
        case .databaseStalls: .databaseStalls(time: random.time(.milliseconds(1), .seconds(60)))
        case .loseReplies: .loseReplies(count: 1 + random.below(4), ofWriters: random.chance(0.7))
        case .raiseErrors: .raiseErrors(count: 1 + random.below(6), ofWriters: random.chance(0.7))
        case .readOnly: .readOnly(time: random.time(.milliseconds(1), .seconds(20)))
        case .diskFull: .diskFull(time: random.time(.milliseconds(1), .seconds(20)))
        case .standbyAway: .standbyAway(time: random.time(.milliseconds(1), .seconds(20)))
        case .failOver: .failOver(more: random.below(4))
        case .unconfirmed:
            .unconfirmed(time: random.time(.milliseconds(10), .seconds(5)), takesOver: random.chance(0.5))
        case .databaseClock: .databaseClock(ahead: random.time(.milliseconds(1), .seconds(100_000)))
        case .workerClock:
            .workerClock(draw: draw, offset: random.time(.milliseconds(1), .seconds(100_000)) * sign(&random))
        case .handlerFails: .handlerFails(draw: draw, time: random.time(.milliseconds(10), .seconds(30)))
        case .handlerHangs: .handlerHangs(draw: draw, time: random.time(.milliseconds(10), .seconds(60)))
        case .kill: .kill(draw: draw, restart: random.time(.milliseconds(10), .seconds(20)))
        case .freeze: .freeze(draw: draw, time: random.time(.milliseconds(1), .seconds(90)))
        case .restart: .restart(draw: draw)
        }
    }

    /// Whether deliveries that a worker holds count as ended by its crash: it dies, or is taken for dead.
    func breaksLeases(of length: Duration) -> Bool {
        // A lease may be near its end, and is extended when half of it is over.
        switch self {
        case .kill: true
        case .freeze(_, let time), .databaseClock(let time): time > length / 4
        default: false
        }
    }

    private static func sign(_ random: inout SplitMix) -> Int { random.chance(0.5) ? 1 : -1 }
}

/// A fault, and when it strikes.
struct PlannedFault: Equatable {
    /// Nanoseconds since the start.
    var at: UInt64
    var fault: Fault
}
