import SimulatedDatabase
import Vocabulary

/// All that a run is made of: the same plan gives the same run, to the step.
struct Plan {
    var seed: UInt64
    var messages: Int
    var workers: Int
    var shape: WorkerShape
    var text: MessageText
    var database: SimulatedDatabase.Options
    /// New messages of all devices per second.
    var rate: Double
    /// In order of time.
    var faults: [PlannedFault]
    var isTraced = false

    /// A plan by seed: rates, sizes and the mix of faults differ from seed to seed, so that each sees much of something.
    init(seed: UInt64, messages: Int, workers: Int?, kinds: [Fault.Kind], faultsPerSecond: Double?) {
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
        database.keepsBodies = false
        let latency = random.time(.microseconds(100), .milliseconds(20))
        database.latency = (latency / 10)...latency
        let lag = random.time(.microseconds(200), .milliseconds(50))
        database.replication = random.chance(0.5) ? .synchronous(lag: lag) : .none
        var refusals = SplitMix(seed: seed, for: "refusals")
        text = MessageText(
            devices: [1, 10, 1_000][random.below(3)],
            categories: 3,
            malformedEvery: [0, 5, 40][random.below(3)],
            refusedEvery: [0, 0, 7, 60][refusals.below(4)]
        )
        rate = 1e9 / Double(random.time(.microseconds(500), .milliseconds(200)).nanoseconds)
        // Few kinds in each run, so that it sees much of them.
        let chosen = (0...random.below(5)).compactMap { _ in kinds.randomElement(using: &random) }
        let frequency = faultsPerSecond ?? 1e9 / Double(random.time(.milliseconds(50), .seconds(10)).nanoseconds)
        faults = []
        guard !chosen.isEmpty else { return }
        let horizon = Double(messages) / rate
        var at = 0.0
        while true {
            at += random.fraction() * 2 / frequency
            guard at < horizon else { break }
            let fault = Fault.draw(chosen[random.below(chosen.count)], &random)
            faults.append(PlannedFault(at: UInt64(at * 1e9), fault: fault))
        }
    }

    /// When the last of the messages arrives, and faults end.
    var horizon: UInt64 { UInt64(Double(messages) / rate * 1e9) }
}
