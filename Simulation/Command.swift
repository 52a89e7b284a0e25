import ArgumentParser
import Glibc
import Vocabulary

/// Runs workers on virtual time against a model of server, network and database, by seed.
@main
struct Command: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "Simulation",
        abstract: "Runs the worker on virtual time, with faults by seed, and judges its guarantees."
    )

    @Option(help: "The seed of one run.")
    var seed: UInt64?

    @Option(help: "The seeds of many runs: 1..1000.")
    var seeds: String?

    @Option(help: "Runs seeds for this many seconds: those of --seeds, or new ones from one that the clock gives.")
    var seconds: Int?

    @Option(help: "How many messages devices send in a run.")
    var messages = 2_000

    @Option(help: "How many workers run; by default 1 to 3, by seed.")
    var workers: Int?

    @Option(help: "The kinds of faults: all, usual (those of any CCS), none, or some of \(Fault.Kind.names).")
    var faults = "all"

    @Option(
        help:
            "The servers, of which each run has one: all, or some of ccs, prosody, ejabberd, standard for the last two."
    )
    var servers = "all"

    @Option(help: "How many faults strike in a second of virtual time; by default by seed.")
    var faultsPerSecond: Double?

    @Flag(help: "Prints the conversation of a run that fails, with as few faults as it takes.")
    var trace = false

    @Flag(help: "Runs each seed twice, and compares every step.")
    var twice = false

    func validate() throws {
        if seed != nil, seeds != nil || seconds != nil { throw ValidationError("--seed is a run of its own") }
        if messages < 1 { throw ValidationError("--messages: at least 1") }
        if let workers, !(1...16).contains(workers) { throw ValidationError("--workers: 1 to 16") }
        _ = try (kinds(), serverKinds(), range())
    }

    func run() throws {
        Self.makeHashesRepeatable()
        GlobalExecutor.install()
        var (sums, range) = (Sums(), try range())
        if let sofar = Sums.earlier { (sums, range) = (sofar.sums, sofar.next...range.upperBound) }
        for seed in range {
            if let seconds, sums.took > Double(seconds) { break }
            let plan = Plan(
                seed: seed,
                messages: messages,
                workers: workers,
                servers: try serverKinds(),
                kinds: try kinds(),
                faultsPerSecond: faultsPerSecond
            )
            let report = Simulation(plan).run()
            sums.add(report)
            if let failure = report.failure {
                tell(failure, of: plan)
                throw ExitCode.failure
            }
            if twice {
                let other = Simulation(plan).run()
                guard other.digest == report.digest, other.counts == report.counts else {
                    print("seed \(seed): two runs differ: \(report.counts) and \(other.counts)")
                    throw ExitCode.failure
                }
            }
            if sums.isLarge, seed < range.upperBound {
                sums.keep(next: seed + 1)
                Self.startAgain()
            }
            if self.seed != nil { print("seed \(seed): digest \(String(report.digest, radix: 16))") }
        }
        print(sums.text)
    }

    private func tell(_ failure: Judge.Failure, of plan: Plan) {
        print("seed \(plan.seed): \(failure.guarantee.rawValue)")
        print("  at \(Double(failure.at) * 1e-9) s: \(failure.text)")
        var again =
            "Simulation --seed \(plan.seed) --messages \(messages) --servers \(servers) --faults \(faults) --trace"
        if let workers { again += " --workers \(workers)" }
        if let faultsPerSecond { again += " --faults-per-second \(faultsPerSecond)" }
        print("  again: swift run -c release \(again)")
        guard trace else { return }
        var least = Shrinking.least(plan, failure.guarantee)
        print("  with \(least.faults.count) of \(plan.faults.count) faults:")
        least.isTraced = true
        for line in Simulation(least).run().lines { print("    \(line)") }
    }

    private func kinds() throws -> [Fault.Kind] {
        switch faults {
        case "all": return Fault.Kind.allCases
        case "usual": return Fault.Kind.usual
        case "none": return []
        default:
            return try faults.split(separator: ",").map { name in
                guard let kind = Fault.Kind(rawValue: String(name)) else {
                    throw ValidationError("--faults: unknown kind \(name)")
                }
                return kind
            }
        }
    }

    private func serverKinds() throws -> [ServerKind] {
        guard servers != "all" else { return ServerKind.allCases }
        return try servers.split(separator: ",").flatMap { name in
            if name == "standard" { return [ServerKind.prosody, .ejabberd] }
            guard let kind = ServerKind(rawValue: String(name)) else {
                throw ValidationError("--servers: unknown kind \(name)")
            }
            return [kind]
        }
    }

    private func range() throws -> ClosedRange<UInt64> {
        if let seed { return seed...seed }
        if seconds != nil, seeds == nil {
            let first = UInt64(Timestamp.now.microseconds) / 1_000
            return first...first + 1_000_000_000
        }
        guard let seeds else { return 1...100 }
        let ends = seeds.split(separator: ".", omittingEmptySubsequences: true).compactMap { UInt64($0) }
        guard ends.count == 2, ends[0] <= ends[1] else { throw ValidationError("--seeds: two numbers, 1..1000") }
        return ends[0]...ends[1]
    }

    /// Hashes differ from process to process, and with them the order of sets; the runtime decides at its start.
    private static func makeHashesRepeatable() {
        let name = "SWIFT_DETERMINISTIC_HASHING"
        guard getenv(name) == nil else { return }
        setenv(name, "1", 1)
        startAgain()
    }

    private static func startAgain() -> Never {
        var arguments = CommandLine.arguments.map { strdup($0) } + [nil]
        execv("/proc/self/exe", &arguments)
        fatalError("cannot start again")
    }
}

/// What many runs have seen: runs, copies, acks, faults, steps, virtual nanoseconds.
private struct Sums {
    private var sums = [Int](repeating: 0, count: 6)
    /// Milliseconds that processes before this one took, and what they delivered.
    private var before: (milliseconds: Int, copies: Int) = (0, 0)
    private let start = ContinuousClock.now

    mutating func add(_ run: Simulation.Report) { sums = zip(sums, run.counts).map(&+) }

    /// Seconds of real time.
    var took: Double { Double(before.milliseconds) / 1e3 + (ContinuousClock.now - start).inSeconds }

    private static let name = "SIMULATION_SO_FAR"

    /// Whether this process holds much of what is never given back: tasks of workers that were killed.
    var isLarge: Bool { sums[1] - before.copies > 500_000 }

    /// Hands on to the next process, which goes on with a seed.
    func keep(next seed: UInt64) {
        setenv(Self.name, (sums + [Int(took * 1e3), Int(seed)]).map(String.init).joined(separator: " "), 1)
    }

    /// What earlier processes have seen, and the seed to go on with; nil in the first.
    static var earlier: (sums: Sums, next: UInt64)? {
        guard let text = getenv(name).map({ String(cString: $0) }) else { return nil }
        unsetenv(name)
        let numbers = text.split(separator: " ").compactMap { Int($0) }
        guard numbers.count == 8 else { return nil }
        var earlier = Sums()
        earlier.sums = Array(numbers[..<6])
        earlier.before = (numbers[6], numbers[1])
        return (earlier, UInt64(numbers[7]))
    }

    var text: String {
        let took = took
        let (copyRate, faultRate) = (Int(Double(sums[1]) / took), Int(Double(sums[3]) / took))
        return """
            \(sums[0]) runs, \(sums[1]) copies delivered, \(sums[2]) acks, \(sums[3]) faults, \(sums[4]) steps, \
            \(sums[5] / 1_000_000_000) s of virtual time in \(took) s: \(copyRate) copies/s, \(faultRate) faults/s
            """
    }
}
