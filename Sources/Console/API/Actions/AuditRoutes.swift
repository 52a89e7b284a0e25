import HTTPTypes
import Hummingbird
import MessageStore
import NIOCore
import Postgres
import Vocabulary

/// `GET audit`: what people did, the latest first.
struct AuditRoutes: ConsoleRoutes {
    let services: ConsoleServices

    private static let parameters: Set = ["who", "action", "since", "until", "after", "limit"]
    private static let mostRows = 500

    func add(to router: RouterGroup<ConsoleContext>) {
        router.get("audit", use: list)
    }

    @Sendable private func list(_ request: Request, _ context: ConsoleContext) async throws -> Response {
        try context.require(.audit)
        let query = request.uri.queryParameters
        for (name, _) in query where !Self.parameters.contains(String(name)) {
            let known = Self.parameters.sorted().joined(separator: ", ")
            throw Problem.badRequest("the parameter '\(name.prefix(100))' is unknown; known are \(known)")
        }
        func value(_ name: Substring) throws(Problem) -> String? {
            guard let text = query[name].map(String.init), !text.isEmpty else { return nil }
            guard !text.contains("\0") else { throw .badRequest("'\(name)' holds U+0000") }
            return text
        }
        var filter = AuditFilter()
        (filter.who, filter.action) = (try value("who"), try value("action"))
        let now = Timestamp.now
        filter.since = try value("since").map { text throws(Problem) in try .parsed(text, "since", now: now) }
        filter.until = try value("until").map { text throws(Problem) in try .parsed(text, "until", now: now) }
        filter.before = try value("after").map { text throws(Problem) in
            guard let id = Int64(text), id > 0 else {
                throw .badRequest("'after' is what 'next' of the page before says")
            }
            return id
        }
        let limit = try value("limit").map { text throws(Problem) in
            guard let limit = Int(text), (1...Self.mostRows).contains(limit) else {
                throw .badRequest("'limit' is 1 to \(Self.mostRows)")
            }
            return limit
        }
        return try await page(filter, limit ?? 50)
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
            for entry in entries { entry.write(to: &json) }
            json.endArray()
            json.member("next", hasMore ? entries.last.map { String($0.id) } : nil)
        }.response(isReplayed: false)
    }
}

extension AuditEntry {
    /// The entry as JSON.
    func write(to json: inout JSONWriter) {
        json.beginObject()
        json.member("id", id)
        json.member("at", at)
        json.member("who", who)
        json.member("role", role)
        json.member("via", via)
        json.member("action", action)
        json.member("subject", subject)
        json.name("count")
        if let count { json.integer(count) } else { json.null() }
        json.member("reason", reason)
        json.endObject()
    }
}
