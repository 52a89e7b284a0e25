import Replaying
import Resources
import Vocabulary

enum ReplayReport {
    static func show(_ detail: ReplayDetail, _ console: Terminal) {
        let replay = detail.replay
        var facts = FactList()
        facts.add("replay", "\(replay.name)  (\(replay.id))")
        facts.add("state", replay.stateInWords, Tone(state: replay.stateInWords))
        facts.add("to", replay.target.description)
        facts.add("selection", replay.selection)
        let skipped = replay.skipped > 0 ? ", \(Amount.count(replay.skipped)) of them skipped" : ""
        facts.add(
            "done",
            "\(Amount.count(replay.done)) of \(Amount.count(replay.planned)) (\(replay.share))\(skipped)"
        )
        if case .handlers = replay.target {
            let waiting = Amount.count(detail.waiting)
            facts.add("at handlers", "\(waiting) waiting, \(Amount.count(detail.dead)) dead letters")
        }
        add(replay.pace, to: &facts)
        if let reason = replay.reason { facts.add("reason", reason) }
        if let owner = replay.owner { facts.add("run by", owner) }
        if let rest = rest(replay) { facts.add("left", rest) }
        if let error = replay.lastError { facts.add("error", error) }
        console.facts(facts)
        console.data("")
        let table = TextTable(ReplayTable.HistoryEntry.columns, detail.history.map(\.cells))
        console.show(table, way: "--json has all")
    }

    static func add(_ pace: ReplayPace, to facts: inout FactList) {
        if let rate = pace.rate { facts.add("rate", "\(Amount.decimal(rate))/s at most") }
        if let speed = pace.speed { facts.add("pacing", "original, \(Amount.decimal(speed))x") }
    }

    /// The estimated remaining time, from this run so far.
    private static func rest(_ replay: Replay) -> String? {
        guard replay.state == .running, replay.done > 0, let length = replay.elapsed, length > .zero else { return nil }
        let elapsed = length / .seconds(1)
        return "about " + Amount.time(elapsed / Double(replay.done) * Double(replay.planned - replay.done))
    }
}
