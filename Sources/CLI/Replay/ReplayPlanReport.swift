import Querying
import Replaying
import Resources
import UpstreamKit
import Vocabulary

/// The text and JSON of a plan.
struct ReplayPlanReport: Encodable {
    private var name: String
    private var replayId: String?
    private var target: String
    private var selected: Int64
    private var planned: Int64
    private var replayedBefore: Int64
    private var replayedBeforeIsIncluded: Bool
    private var earlierReplays: [Earlier]
    private var firstReceivedAt: String?
    private var lastReceivedAt: String?
    private var categories: [Count]
    private var handlers: [Handler]
    private var rate: Double?
    private var speed: Double?
    private var estimatedSeconds: Double
    private var estimateIsMeasured: Bool
    private var sample: [Sample]

    private struct Count: Encodable {
        var category: String
        var count: Int64
    }

    private struct Earlier: Encodable {
        var replay: String
        var count: Int64
    }

    private struct Handler: Encodable {
        var handler: String
        var dead: Int64
        var beforeRegistered: Int64
        var handled: Int64
        var pending: Int64
        var replayedBefore: Int64
        var planned: Int64
    }

    private struct Sample: Encodable {
        var receivedAt: String
        var messageKey: String
        var deviceKey: String
        var category: String
        var dataBytes: Int
    }

    init(_ plan: ReplayPlan) {
        name = plan.name
        replayId = plan.id?.description
        target = plan.target.description
        selected = plan.selected
        planned = plan.planned
        replayedBefore = plan.replayed
        replayedBeforeIsIncluded = plan.includesReplayed
        earlierReplays = plan.earlier.map { Earlier(replay: $0.name, count: $0.count) }
        firstReceivedAt = plan.span.map { ShownTime.full($0.lowerBound) }
        lastReceivedAt = plan.span.map { ShownTime.full($0.upperBound) }
        categories = plan.categories.map { Count(category: $0.name, count: $0.count) }
        handlers = plan.handlers.map {
            Handler(
                handler: $0.handler,
                dead: $0.dead,
                beforeRegistered: $0.new,
                handled: $0.handled,
                pending: $0.pending,
                replayedBefore: $0.replayed,
                planned: $0.planned
            )
        }
        rate = plan.pace.rate
        speed = plan.pace.speed
        estimatedSeconds = plan.estimate
        estimateIsMeasured = plan.isMeasured
        sample = plan.sample.map {
            Sample(
                receivedAt: ShownTime.full($0.message.receivedAtMicroseconds),
                messageKey: $0.message.messageKey.description,
                deviceKey: $0.message.deviceKey.description,
                category: $0.message.category,
                dataBytes: $0.message.data?.count ?? 0
            )
        }
    }

    static func show(_ plan: ReplayPlan, _ console: Console) {
        console.facts(facts(plan))
        if !plan.handlers.isEmpty {
            let columns: [TextTable.Column] = [
                "HANDLER", "TO SEND", "DEAD", .init("BEFORE IT", dropOrder: 4), .init("HANDLED", dropOrder: 3),
                .init("WAITING", dropOrder: 2), .init("REPLAYED", dropOrder: 1),
            ]
            let rows = plan.handlers.map { counts in
                [counts.handler]
                    + [
                        counts.planned, counts.dead, counts.new, counts.handled, counts.pending, counts.replayed,
                    ].map { Amount.count($0) }
            }
            console.data("")
            console.show(TextTable(columns, rows), way: "--json has all")
        }
        if !plan.categories.isEmpty {
            let rows = plan.categories.map { [Amount.count($0.count), $0.name] }
            console.data("")
            console.table(TextTable(["COUNT", .init("CATEGORY", minimum: 20)], rows))
        }
        if !plan.sample.isEmpty {
            let columns: [TextTable.Column] = [
                "RECEIVED", "MESSAGE", .init("DEVICE", dropOrder: 3),
                .init("CATEGORY", minimum: 10, dropOrder: 1, cut: .middle),
                .init("DATA", dropOrder: 2),
            ]
            let rows = plan.sample.map { stored in
                let message = stored.message
                return [
                    ShownTime.short(message.receivedAtMicroseconds), message.messageKey.description,
                    message.deviceKey.description, message.category, Amount.bytes(Int64(message.data?.count ?? 0)),
                ]
            }
            console.data("")
            console.show(TextTable(columns, rows), way: "--json has all")
        }
    }

    private static func facts(_ plan: ReplayPlan) -> FactList {
        let isToHandlers = if case .handlers = plan.target { true } else { false }
        var facts = FactList()
        facts.add("replay", plan.name)
        facts.add("to", plan.target.description)
        facts.add("selected", "\(Amount.count(plan.selected)) messages")
        facts.add("to send", "\(Amount.count(plan.planned)) \(isToHandlers ? "deliveries" : "messages")")
        if plan.replayed > 0 {
            let names = plan.earlier.prefix(3).map { "\($0.name) (\(Amount.count($0.count)))" }
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
