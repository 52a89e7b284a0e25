import MessageStore
package import Postgres
import Querying
import Vocabulary

/// The planning of a replay: freezes what a filter selects.
///
/// The filter is evaluated once: later commits don't join, and the counts shown are those of the frozen rows.
package struct ReplayPlanner {
    /// The number of messages in a row of `replay_messages`.
    static let chunkSize: Int64 = 1_000

    private let request: ReplayRequest
    private let target: ReplayTarget

    /// Plans a replay inside a transaction, bounded by the session's statement timeout; a failed plan keeps nothing.
    ///
    /// - Returns: The plan; without an id for a dry run, or if there is nothing to send.
    package static func plan(
        _ connection: isolated PostgresConnection,
        _ request: ReplayRequest,
        isDryRun: Bool = false
    ) throws(PostgresError) -> Result<ReplayPlan, ReplayError> {
        if !isDryRun, try connection.run(PlanStatements.unfinished(request.name)).count > 0 {
            return .failure(taken(request))
        }
        switch try resolve(request, connection) {
        case .failure(let error): return .failure(error)
        case .success(let target):
            return try ReplayPlanner(request: request, target: target).run(connection, isDryRun: isDryRun)
        }
    }

    private func run(
        _ connection: isolated PostgresConnection,
        isDryRun: Bool
    ) throws(PostgresError) -> Result<ReplayPlan, ReplayError> {
        try select(connection)
        var plan = try counts(connection)
        plan.sample = try MessagePage(connection.run(PlanStatements.sample(request))).messages
        try estimate(&plan, connection)
        guard !isDryRun, plan.planned > 0 else { return .success(plan) }
        do throws(PostgresError) {
            try freeze(&plan, connection)
        } catch  where error.constraint == "replays_name_key" {
            return .failure(Self.taken(request))
        }
        return .success(plan)
    }

    private static func taken(_ request: ReplayRequest) -> ReplayError {
        ReplayError(.refused, "a replay '\(request.name)' exists and has not ended: choose another name, or cancel it")
    }

    private static func resolve(
        _ request: ReplayRequest,
        _ connection: isolated PostgresConnection
    ) throws(PostgresError) -> Result<ReplayTarget, ReplayError> {
        let (wanted, scope): ([String], ReplayRequest.Scope)
        switch request.target {
        case .other(let target): return .success(target)
        case .handlers(let names, let chosen): (wanted, scope) = (names, chosen)
        }
        let known = try connection.run(PlanStatements.handlers).rows(as: String.self)
        if let stranger = wanted.first(where: { !known.contains($0) }) {
            let list = known.isEmpty ? "none has been registered yet" : "registered: " + known.joined(separator: ", ")
            return .failure(ReplayError(.unknown, "unknown handler '\(stranger)'; \(list)"))
        }
        guard !known.isEmpty else {
            return .failure(
                ReplayError(.unknown, "no handler is registered: a worker registers those of its configuration")
            )
        }
        let names = wanted.isEmpty ? known : known.filter(wanted.contains)
        return .success(.handlers(names, onlyFailed: scope == .onlyFailed))
    }

    /// Evaluates the filter into the temporary table: the only read of live `messages`.
    private func select(_ connection: isolated PostgresConnection) throws(PostgresError) {
        let filter = request.filter
        try collectEarlier(connection)
        try connection.run(PlanStatements.makeSelection)
        guard case .handlers(let names, _) = target else {
            try connection.run(PlanStatements.selectMessages(filter))
            return
        }
        let isSubscribed = if case .handlers(let wanted, _) = request.target { wanted.isEmpty } else { true }
        try connection.run(PlanStatements.selectKept(filter, for: names, isSubscribed: isSubscribed))
        try connection.run(PlanStatements.selectDeliveries(filter, for: names, isSubscribed: isSubscribed))
    }

    /// Collects what earlier replays have sent to the same place.
    ///
    /// Read before the messages: what another replay sends meanwhile is rather sent twice than left out. Files are
    /// always written whole, so nothing is left out of them.
    private func collectEarlier(_ connection: isolated PostgresConnection) throws(PostgresError) {
        try connection.run(EarlierStatements.makeReplays)
        try connection.run(EarlierStatements.makeMessages)
        if case .output = target { return }
        try connection.run(EarlierStatements.findReplays(target, request.filter))
        guard case .handlers(let names, _) = target else {
            try connection.run(EarlierStatements.collectMessages(request.filter))
            return
        }
        try connection.run(EarlierStatements.collectDeliveries(for: names, request.filter))
    }

    /// Estimates the duration from the requested pace and the rates of earlier replays.
    private func estimate(_ plan: inout ReplayPlan, _ connection: isolated PostgresConnection) throws(PostgresError) {
        let measured = try connection.run(PlanStatements.measuredRate(plan.target.kind)).value(Double?.self)
        let guess: Double =
            switch plan.target {
            case .handlers: 2_000
            case .output: 20_000
            case .endpoint: 1_000
            }
        plan.isMeasured = measured != nil
        plan.estimate = Double(plan.planned) / max(measured ?? guess, 1)
        if let rate = plan.pace.rate { plan.estimate = max(plan.estimate, Double(plan.planned) / rate) }
        if let speed = plan.pace.speed, let span = plan.span {
            plan.estimate = max(plan.estimate, (span.upperBound - span.lowerBound) / .seconds(1) / speed)
        }
    }

    private func freeze(_ plan: inout ReplayPlan, _ connection: isolated PostgresConnection) throws(PostgresError) {
        let insert = PlanStatements.insert(
            request,
            plan,
            selection: try JSONColumn(encoding: request.filter, "the filter"),
            options: try ReplayOptions(plan.target, plan.pace).column
        )
        let id = try connection.run(insert).value(Digest128.self)
        try connection.run(PlanStatements.freeze(id, request))
        let (author, count) = (request.author, Int(clamping: plan.planned))
        try connection.run(ReplayStatements.note(id, "planned", who: author.name, detail: author.reason))
        let subject = "replay '\(plan.name)' (\(id)) to \(plan.target)"
        try AuditLog.record(connection, .planReplay, subject, count: count, by: author)
        plan.id = id
    }

    // MARK: Counts

    private static let mostCategories = 10

    /// The plan of the selection, without its sample and estimate.
    private func counts(_ connection: isolated PostgresConnection) throws(PostgresError) -> ReplayPlan {
        var plan = ReplayPlan(request, target: target)
        plan.handlers = target.handlers.map { ReplayPlan.HandlerCounts(handler: $0) }
        let rows = try connection.run(PlanStatements.standings(request))
            .rows(as: (Int?, String, Int64, Int64, Int64).self)
        for row in rows { plan.count(row) }
        plan.categories = Self.merged(
            try connection.run(PlanStatements.categories(request)).rows(ReplayPlan.Count.init)
        )
        let span = PlanStatements.span(request, hasSeveralHandlers: target.handlers.count > 1)
        (plan.span, plan.selected) = try connection.run(span).onlyRow { (ClosedRange($0, $1), $2) }
        guard plan.replayed > 0 else { return plan }
        plan.earlier = try connection.run(EarlierStatements.counts(request.scope)).rows(ReplayPlan.Earlier.init)
        return plan
    }

    private static func merged(_ categories: [ReplayPlan.Count]) -> [ReplayPlan.Count] {
        guard categories.count > mostCategories else { return categories }
        let rest = categories[(mostCategories - 1)...]
        let others = ReplayPlan.Count(name: "\(rest.count) others", count: rest.reduce(0) { $0 + $1.count })
        return categories.prefix(mostCategories - 1) + [others]
    }
}
