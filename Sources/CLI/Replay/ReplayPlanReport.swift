import Querying
import Replaying
import Resources
import Vocabulary

/// A plan as people read it.
enum ReplayPlanReport {
    /// Prints a plan for people.
    static func show(_ plan: ReplayPlan, _ console: Terminal) {
        console.facts(facts(plan))
        table(plan.handlers, console)
        table(plan.categories, console)
        table(plan.sample.map { SampledMessage($0.message) }, console)
    }

    private static func table<Row: ShownResource>(_ rows: [Row], _ console: Terminal) {
        guard !rows.isEmpty else { return }
        console.data("")
        console.show(TextTable(Row.columns, rows.map(\.cells)), way: "--json has all")
    }

    private static func facts(_ plan: ReplayPlan) -> FactList {
        let isToHandlers = if case .handlers = plan.target { true } else { false }
        var facts = FactList()
        facts.add("replay", plan.name)
        facts.add("to", plan.target.description)
        facts.add("selected", "\(Amount.count(plan.selected)) messages")
        facts.add("to send", "\(Amount.count(plan.planned)) \(isToHandlers ? "deliveries" : "messages")")
        if plan.replayed > 0 {
            let names = plan.earlier.prefix(3).map { "\($0.replay) (\(Amount.count($0.count)))" }
            let more = plan.earlier.count > 3 ? ", …" : ""
            let fate = plan.includesReplayed ? "sent again" : "left out; --include-replayed sends them again"
            facts.add(
                "replayed",
                "\(Amount.count(plan.replayed)) before, by \(names.joined(separator: ", "))\(more): \(fate)"
            )
        }
        if let span = plan.span {
            let length = Amount.time((span.upperBound - span.lowerBound) / .seconds(1))
            facts.add(
                "received",
                "\(ShownTime.short(span.lowerBound)) to \(ShownTime.short(span.upperBound)) (\(length))"
            )
        }
        ReplayReport.add(plan.pace, to: &facts)
        facts.add(
            "takes",
            "about \(Amount.time(plan.estimate))\(plan.isMeasured ? ", by earlier replays" : ", a guess")"
        )
        return facts
    }
}
