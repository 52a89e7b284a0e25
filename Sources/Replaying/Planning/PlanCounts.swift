import Postgres
import Vocabulary

/// Counts what a selection holds.
struct PlanCounts {
    let request: ReplayRequest
    let target: ReplayTarget

    private static let mostCategories = 10

    /// The plan of the selection, without its sample and estimate.
    func plan(_ connection: isolated PostgresConnection) throws(PostgresError) -> ReplayPlan {
        var plan = ReplayPlan(request, target: target)
        try countHandlers(&plan, connection)
        let categories = try connection.run(PlanStatements.categories(request.choice)).map {
            row throws(PostgresError) in
            ReplayPlan.Count(name: try row.next(), count: try row.next())
        }
        plan.categories = Self.merged(categories)
        let span = PlanStatements.span(request.choice, hasSeveralHandlers: target.handlers.count > 1)
        try connection.run(span).only { row throws(PostgresError) in
            let (first, last) = (try row.next(Timestamp?.self), try row.next(Timestamp?.self))
            plan.span = first.flatMap { first in last.map { first...$0 } }
            plan.selected = try row.next()
        }
        guard plan.replayed > 0 else { return plan }
        plan.earlier = try connection.run(EarlierStatements.counts(request.scope)).map { row throws(PostgresError) in
            ReplayPlan.Count(name: try row.next(), count: try row.next())
        }
        return plan
    }

    private func countHandlers(
        _ plan: inout ReplayPlan,
        _ connection: isolated PostgresConnection
    ) throws(PostgresError) {
        plan.handlers = target.handlers.map { ReplayPlan.HandlerCounts(handler: $0) }
        let standings = try connection.run(PlanStatements.standings(request.choice)).map { row throws(PostgresError) in
            (
                handler: try row.next(Int?.self), standing: try row.next(String.self), count: try row.next(Int64.self),
                planned: try row.next(Int64.self), replayed: try row.next(Int64.self)
            )
        }
        for row in standings {
            plan.planned += row.planned
            plan.replayed += row.replayed
            guard let place = row.handler.map({ $0 - 1 }), plan.handlers.indices.contains(place) else { continue }
            plan.handlers[place].planned += row.planned
            plan.handlers[place].replayed += row.replayed
            switch row.standing {
            case "p": plan.handlers[place].pending = row.count
            case "x": plan.handlers[place].dead = row.count
            case "n": plan.handlers[place].new = row.count
            default: plan.handlers[place].handled = row.count
            }
        }
    }

    private static func merged(_ categories: [ReplayPlan.Count]) -> [ReplayPlan.Count] {
        guard categories.count > mostCategories else { return categories }
        let rest = categories[(mostCategories - 1)...]
        let others = ReplayPlan.Count(name: "\(rest.count) others", count: rest.reduce(0) { $0 + $1.count })
        return categories.prefix(mostCategories - 1) + [others]
    }
}
