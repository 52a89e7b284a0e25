import HTTPTypes
import Hummingbird
import MessageStore
import NIOCore
import Postgres
import Resources
import Vocabulary

/// `GET audit`: what people did, newest first.
struct AuditRoutes: ConsoleRoutes {
    let services: ConsoleServices

    private static let parameters = QueryParameters.Names(
        single: ["who", "action", "since", "until", "after", "limit"]
    )
    private static let mostRows = 500

    func add(to router: RouterGroup<ConsoleContext>) {
        router.get("audit", use: list)
    }

    @Sendable private func list(_ request: Request, _ context: ConsoleContext) async throws -> Response {
        try context.require(.audit)
        let query = try QueryParameters(request, Self.parameters)
        func text(_ name: String) -> String? { query.text(name).flatMap { $0.isEmpty ? nil : $0 } }
        var filter = AuditFilter()
        (filter.who, filter.action) = (text("who"), text("action"))
        let now = Timestamp.now
        filter.since = try text("since").map { text throws(Problem) in try .parsed(text, "since", now: now) }
        filter.until = try text("until").map { text throws(Problem) in try .parsed(text, "until", now: now) }
        filter.before = try query.cursor { text in Int64(text).flatMap { $0 > 0 ? $0 : nil } }
        let limit = try query.integer("limit", in: 1...Self.mostRows, or: 50)
        return try await page(filter, limit)
    }

    private func page(_ filter: AuditFilter, _ limit: Int) async throws -> Response {
        var entries = try await services.reader.run { connection throws(PostgresError) in
            try AuditLog.page(connection, filter, limit: limit + 1)
        }
        let hasMore = entries.count > limit
        if hasMore { entries.removeLast() }
        return ActionAnswer { json in
            json.name("items")
            json.beginArray()
            for entry in entries { entry.shown(to: services.settings.sight).write(to: &json) }
            json.endArray()
            json.member("next", hasMore ? entries.last.map { String($0.id) } : nil)
        }.response(isReplayed: false)
    }
}
