import Hummingbird
import MessageStore
import Postgres
import Querying
import Resources
import UpstreamKit
import Vocabulary

/// `GET dead`, `dead/groups` and `deliveries`.
struct DeliveryRoutes: ConsoleRoutes {
    static let deadNames = ["handler", "group", "category", "message", "since", "until"]

    /// Where counting a group stops: there may be some hundred groups.
    static let groupLimit = 2_000

    let services: ConsoleServices

    init(_ services: ConsoleServices) { self.services = services }

    func add(to router: RouterGroup<ConsoleContext>) {
        router.get("dead", use: dead)
        router.get("dead/groups", use: groups)
        router.get("deliveries", use: deliveries)
    }

    private func dead(_ request: Request, _ context: ConsoleContext) async throws -> Response {
        try context.require(.read)
        let parameters = try QueryParameters(request, .init(single: Self.deadNames + ["limit", "after"]))
        let sight = services.settings.sight
        let asked = try DeadParameters(parameters, sight)
        let limit = try parameters.integer("limit", in: 1...200, or: 50)
        let cursor = try parameters.cursor(DeadLetterCursor.init)
        let letters = try await services.reader.withConnection(.search) { connection in
            try await DeadLetters(connection).list(asked.judged(connection), after: cursor, limit: limit)
                .shown(to: sight, connection)
        }
        let next = letters.count < limit ? nil : letters.last?.cursor
        return JSONAnswer.list(letters, next: next?.description) { $1.write(to: &$0) }
    }

    private func groups(_ request: Request, _ context: ConsoleContext) async throws -> Response {
        try context.require(.read)
        let handler = try QueryParameters(request, .init(single: ["handler"])).text("handler")
        let groups = try await services.reader.withConnection { connection in
            try await DeadLetters(connection).summary(handler: handler, groups: 500, counted: Self.groupLimit)
        }
        let sight = services.settings.sight
        return JSONAnswer.list(groups.map { $0.shown(to: sight) }, next: nil) { $1.write(to: &$0) }
    }

    private func deliveries(_ request: Request, _ context: ConsoleContext) async throws -> Response {
        try context.require(.read)
        let parameters = try QueryParameters(request, .init(single: ["handler", "limit", "after"]))
        var query = WaitingQuery()
        query.handler = parameters.text("handler")
        query.limit = try parameters.integer("limit", in: 1...200, or: 50)
        query.cursor = try parameters.cursor(WaitingCursor.init)
        let sight = services.settings.sight
        let rows = try await services.reader.withConnection(.search) { [query] connection in
            try await query.rows(connection).shown(to: sight, connection)
        }
        let next = rows.count < query.limit ? nil : rows.last?.cursor
        return JSONAnswer.list(rows, next: next?.description) { $1.write(to: &$0) }
    }
}

/// A request's filter of dead letters: the options of `dead list`.
struct DeadParameters: Sendable {
    private var filter = DeadLetterFilter()
    private let since, until: String?

    init(_ parameters: QueryParameters, _ sight: Sight) throws(Problem) {
        filter.handler = parameters.text("handler")
        filter.group = parameters.text("group")
        guard sight.mayName(group: filter.group) else { throw .groupHidden }
        filter.category = parameters.text("category")
        filter.messageKey = try parameters.messageKey("message")
        (since, until) = (parameters.text("since"), parameters.text("until"))
        filter = try judged(now: .now)
    }

    /// The filter, with ages counted back from the database's clock.
    ///
    /// - Parameter connection: The database.
    /// - Throws: `PostgresError`, and a ``Problem`` if `since` is not before `until`.
    /// - Returns: The filter; its times are those of death.
    func judged(_ connection: PostgresConnection) async throws -> DeadLetterFilter {
        guard since != nil || until != nil else { return filter }
        return try judged(now: try await MessageTail.now(connection))
    }

    private func judged(now: Timestamp) throws(Problem) -> DeadLetterFilter {
        var filter = filter
        filter.since = try FilterParameters.time(since, "since", now)
        filter.until = try FilterParameters.time(until, "until", now)
        if let since = filter.since, let until = filter.until, since >= until {
            throw .badRequest("'since' must be before 'until'")
        }
        return filter
    }
}
