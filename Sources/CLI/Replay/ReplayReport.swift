import Replaying
import Vocabulary

/// A replay as programs and people read it.
struct ReplayReport: Encodable {
    private var replayId: String
    private var name: String
    private var state: String
    private var target: String
    private var selection: String
    private var planned: Int64
    private var done: Int64
    private var skipped: Int64
    private var waiting: Int64?
    private var deadLetters: Int64?
    private var rate: Double?
    private var speed: Double?
    private var concurrency: Int?
    private var reason: String?
    private var createdBy: String
    private var createdAt: String
    private var startedAt: String?
    private var finishedAt: String?
    private var runs: Int64
    private var owner: String?
    private var leaseUntil: String?
    private var lastError: String?
    private var history: [Entry]?

    private struct Entry: Encodable {
        var at: String
        var event: String
        var who: String
        var done: Int64
        var detail: String?
    }

    init(
        _ replay: Replay,
        history: [ReplayTable.HistoryEntry]? = nil,
        deliveries: (waiting: Int64, dead: Int64)? = nil
    ) {
        replayId = replay.id.description
        name = replay.name
        state = replay.state.rawValue
        target = replay.target.description
        selection = replay.selection
        planned = replay.planned
        done = replay.done
        skipped = replay.skipped
        if case .handlers = replay.target {
            waiting = deliveries?.waiting
            deadLetters = deliveries?.dead
        }
        rate = replay.pace.rate
        speed = replay.pace.speed
        concurrency = replay.pace.concurrency
        reason = replay.reason
        createdBy = replay.createdBy
        createdAt = ShownTime.full(replay.createdAt)
        startedAt = replay.startedAt.map(ShownTime.full)
        finishedAt = replay.finishedAt.map(ShownTime.full)
        runs = replay.runs
        owner = replay.owner
        leaseUntil = replay.leaseUntil.map(ShownTime.full)
        lastError = replay.lastError
        self.history = history?.map {
            Entry(at: ShownTime.full($0.at), event: $0.event, who: $0.who, done: $0.done, detail: $0.detail)
        }
    }

    /// The state, and whether a process runs it.
    static func state(_ replay: Replay) -> String {
        guard replay.state == .running else { return replay.state.rawValue }
        return replay.isHeld ? "running" : "running, but no process runs it"
    }

    /// How much is done.
    static func share(_ replay: Replay) -> String {
        replay.planned == 0 ? "-" : "\(replay.done * 100 / replay.planned) %"
    }

    /// Prints a replay with its history for people.
    static func show(
        _ replay: Replay,
        _ history: [ReplayTable.HistoryEntry],
        _ deliveries: (waiting: Int64, dead: Int64),
        _ console: Console
    ) {
        var facts = FactList()
        facts.add("replay", "\(replay.name)  (\(replay.id))")
        facts.add("state", state(replay), Tone(state: state(replay)))
        facts.add("to", replay.target.description)
        facts.add("selection", replay.selection)
        let skipped = replay.skipped > 0 ? ", \(Amount.count(replay.skipped)) of them skipped" : ""
        facts.add(
            "done",
            "\(Amount.count(replay.done)) of \(Amount.count(replay.planned)) (\(share(replay)))\(skipped)"
        )
        if case .handlers = replay.target {
            let waiting = Amount.count(deliveries.waiting)
            facts.add("at handlers", "\(waiting) waiting, \(Amount.count(deliveries.dead)) dead letters")
        }
        add(replay.pace, to: &facts)
        if let reason = replay.reason { facts.add("reason", reason) }
        if let owner = replay.owner { facts.add("run by", owner) }
        if let rest = rest(replay) { facts.add("left", rest) }
        if let error = replay.lastError { facts.add("error", error) }
        console.facts(facts)
        console.data("")
        let columns: [TextTable.Column] = [
            "AT", "EVENT", "DONE", .init("WHO", minimum: 10, dropOrder: 1), .init("DETAIL", minimum: 10, dropOrder: 2),
        ]
        let rows = history.map {
            [ShownTime.short($0.at), $0.event, Amount.count($0.done), $0.who, $0.detail ?? ""]
        }
        console.show(TextTable(columns, rows), way: "--json has all")
    }

    /// Adds the limits of a pace, where it has any.
    static func add(_ pace: ReplayPace, to facts: inout FactList) {
        if let rate = pace.rate { facts.add("rate", "\(Amount.decimal(rate))/s at most") }
        if let speed = pace.speed { facts.add("pacing", "original, \(Amount.decimal(speed))x") }
    }

    /// How long it may still take, by what this run came to so far.
    private static func rest(_ replay: Replay) -> String? {
        guard replay.state == .running, replay.done > 0, let length = replay.elapsed, length > .zero else { return nil }
        let elapsed = length / .seconds(1)
        return "about " + Amount.time(elapsed / Double(replay.done) * Double(replay.planned - replay.done))
    }
}
