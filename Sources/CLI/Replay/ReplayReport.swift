import Replaying

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
        replayId = replay.id
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
        createdAt = HandlersCommand.time(replay.createdAt)
        startedAt = replay.startedAt.map(HandlersCommand.time)
        finishedAt = replay.finishedAt.map(HandlersCommand.time)
        runs = replay.runs
        owner = replay.owner
        leaseUntil = replay.leaseUntil.map(HandlersCommand.time)
        lastError = replay.lastError
        self.history = history?.map {
            Entry(at: HandlersCommand.time($0.at), event: $0.event, who: $0.who, done: $0.done, detail: $0.detail)
        }
    }

    /// The state, and whether somebody is at work.
    static func state(_ replay: Replay) -> String {
        guard replay.state == .running else { return replay.state.rawValue }
        return replay.isHeld ? "running" : "running, held by nobody"
    }

    /// How much is done.
    static func share(_ replay: Replay) -> String {
        replay.planned == 0 ? "-" : "\(replay.done * 100 / replay.planned) %"
    }

    /// For people.
    static func text(
        _ replay: Replay,
        _ history: [ReplayTable.HistoryEntry],
        _ deliveries: (waiting: Int64, dead: Int64)
    ) -> String {
        var facts = [
            ["replay", "\(replay.name)  (\(replay.id))"],
            ["state", state(replay)],
            ["to", replay.target.description],
            ["selection", replay.selection],
            [
                "done",
                "\(Amount.count(replay.done)) of \(Amount.count(replay.planned)) (\(share(replay)))"
                    + (replay.skipped > 0 ? ", \(Amount.count(replay.skipped)) of them passed over" : ""),
            ],
        ]
        if case .handlers = replay.target {
            facts.append([
                "at handlers",
                "\(Amount.count(deliveries.waiting)) waiting, \(Amount.count(deliveries.dead)) dead letters",
            ])
        }
        if let rate = replay.pace.rate { facts.append(["rate", "\(Amount.decimal(rate))/s at most"]) }
        if let speed = replay.pace.speed { facts.append(["pacing", "original, \(Amount.decimal(speed))x"]) }
        if let reason = replay.reason { facts.append(["reason", reason]) }
        if let owner = replay.owner { facts.append(["run by", owner]) }
        if let rest = rest(replay) { facts.append(["left", rest]) }
        if let error = replay.lastError { facts.append(["error", error]) }
        let rows = history.map { entry in
            [
                HandlersCommand.time(entry.at), entry.event, Amount.count(entry.done), entry.who,
                entry.detail ?? "",
            ]
        }
        return Console.table(facts) + "\n\n" + Console.table([["AT", "EVENT", "DONE", "WHO", ""]] + rows)
    }

    /// How long it may still take, by what this run came to so far.
    private static func rest(_ replay: Replay) -> String? {
        guard replay.state == .running, replay.done > 0, let length = replay.elapsed, length > 0 else { return nil }
        let elapsed = Double(length) / 1e6
        return "about " + Amount.time(elapsed / Double(replay.done) * Double(replay.planned - replay.done))
    }
}
