import SimulatedDatabase
import Vocabulary

extension StandardAccount.Shape {
    init(_ kind: ServerKind, _ random: inout SplitMix) {
        self.kind = kind
        queue = [50, 500, 5_000][random.below(3)]
        resume = [.zero, .seconds(10), .seconds(60)][random.below(3)]
        patience = random.time(.milliseconds(500), .seconds(20))
        senders = random.below(3)
    }
}

/// All that a run is made of: the same plan gives the same run, to the step.
struct Plan {
    var seed: UInt64
    var messages: Int
    var workers: Int
    var shape: WorkerShape
    var text: MessageText
    /// The account's server if it is a standard one; nil for a CCS.
    var standard: StandardAccount.Shape?
    var handlers: [Handlers.Kind]
    /// One of them that hangs until the others have done all.
    var stuck: Int?
    var database: SimulatedDatabase.Options
    /// New messages of all devices per second.
    var rate: Double
    /// In order of time.
    var faults: [Fault]
    var isTraced = false

    /// A plan by seed: rates, sizes and the mix of faults differ from seed to seed, so that each sees much of something.
    init(
        seed: UInt64,
        messages: Int,
        workers: Int?,
        servers: [ServerKind],
        kinds: [Fault.Kind],
        faultsPerSecond: Double?
    ) {
        var random = SplitMix(seed: seed, for: "plan")
        self.seed = seed
        self.messages = messages
        self.workers = workers ?? 1 + random.below(3)
        shape = WorkerShape(
            connections: 1 + random.below(3),
            writers: 1 + random.below(3),
            batchLimit: [1, 10, 100, 500][random.below(4)],
            loops: 1 + random.below(2),
            lease: [.seconds(10), .seconds(30), .seconds(60)][random.below(3)]
        )
        database = SimulatedDatabase.Options()
        database.passes = { _, body in MessageText.number(of: body.message).map { $0 % 2 == 0 } ?? false }
        let latency = random.time(.microseconds(100), .milliseconds(20))
        database.latency = (latency / 10)...latency
        let lag = random.time(.microseconds(200), .milliseconds(50))
        database.replication = random.chance(0.5) ? .synchronous(lag: lag) : .none
        var refusals = SplitMix(seed: seed, for: "refusals")
        // Half of the runs have a CCS, where there may be one.
        var drawn = SplitMix(seed: seed, for: "servers")
        let others = servers.filter { $0 != .ccs }
        let isCCS = others.isEmpty || servers.contains(.ccs) && drawn.chance(0.5)
        if !isCCS { standard = StandardAccount.Shape(others[drawn.below(others.count)], &drawn) }
        text = MessageText(
            devices: [1, 10, 1_000][random.below(3)],
            categories: 3,
            malformedEvery: [0, 5, 40][random.below(3)],
            refusedEvery: [0, 0, 7, 60][refusals.below(4)],
            isStandard: standard != nil
        )
        var choices = SplitMix(seed: seed, for: "handlers of a plan")
        let some = Handlers.kinds.filter { _ in choices.chance(0.5) }
        handlers = some.isEmpty ? Handlers.kinds : some
        if handlers.count > 1, choices.chance(0.3) { stuck = choices.below(handlers.count) }
        shape.standard = standard
        if standard != nil { shape.connections = 1 }
        // Two workers take the session from each other.
        if standard != nil, workers == nil, drawn.chance(0.7) { self.workers = 1 }
        shape.capacity = [16, 100, 2_000][choices.below(3)]
        rate = 1e9 / Double(random.time(.microseconds(500), .milliseconds(200)).nanoseconds)
        // Few kinds in each run, so that it sees much of them.
        let usual = kinds.filter(Fault.Kind.usual.contains)
        var chosen = (0...random.below(5)).compactMap { _ in usual.randomElement(using: &random) }
        if standard != nil {
            chosen += [.serverRestart, .refuseResumption].filter { kinds.contains($0) && drawn.chance(0.5) }
        }
        var replays = SplitMix(seed: seed, for: "replays")
        if kinds.contains(.replay), kinds.count == 1 || replays.chance(0.2) {
            // Half of these runs see nothing else.
            chosen = (replays.chance(0.5) ? [] : chosen) + [.replay]
            database.keepsBodies = true
        }
        let frequency = faultsPerSecond ?? 1e9 / Double(random.time(.milliseconds(50), .seconds(10)).nanoseconds)
        faults = []
        guard !chosen.isEmpty else { return }
        let horizon = Double(messages) / rate
        var at = 0.0
        while true {
            at += random.fraction() * 2 / frequency
            guard at < horizon else { break }
            faults.append(Fault(chosen[random.below(chosen.count)], at: UInt64(at * 1e9), &random))
        }
    }

    /// Whether nothing keeps a worker from storing what it has read before its grace is over.
    var endsInTime: Bool {
        shape.batchLimit > 1 && faults.allSatisfy { $0.kind != .flood && Fault.Kind.outside.contains($0.kind) }
    }

    /// Whether live messages go before replayed ones as the only worker knows them: it has room for all.
    var judgesTurns: Bool { workers == 1 && shape.capacity >= messages && faults.allSatisfy { $0.kind == .replay } }

    /// Whether the worker has to keep the queue of a standard server from overflowing: the inflow is steady, and neither what
    /// is stored at a login nor a connection that nobody has given up yet fills it.
    var judgesQueue: Bool {
        guard let standard, standard.queue >= 500, standard.senders == 0, rate <= Double(standard.queue) / 2 else {
            return false
        }
        return faults.allSatisfy { ![.freeze, .halfOpen, .trickle, .repeatMessages].contains($0.kind) }
    }

    /// When the last of the messages arrives, and faults end.
    var horizon: UInt64 { UInt64(Double(messages) / rate * 1e9) }
}
