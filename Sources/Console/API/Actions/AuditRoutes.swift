import Hummingbird
import MessageStore
import Postgres
import Querying
import Resources

/// `GET audit`: what people did, the latest first.
struct AuditRoutes: EndpointGroup {
    private static let limit = Parameter.limit(500)
    private static let after = Parameter.after { text in Int64(text).flatMap { $0 > 0 ? $0 : nil } }

    let services: ConsoleServices

    var endpoints: [Endpoint] {
        [
            .get(
                "listAudit",
                "audit",
                "What people did, the latest first.",
                AuditFilter.parameters + [Self.limit, Self.after],
                .page(of: AuditEntry.schema),
                right: .audit,
                list
            )
        ]
    }

    private func list(_ request: EndpointRequest) async throws -> Response {
        let sight = services.settings.sight
        let asked = try request.filter(AuditFilter.self, showsPayloads: sight.payloads)
        let (limit, after) = (try request[Self.limit], try request[Self.after])
        let entries = try await services.reader.withConnection { connection in
            var filter = try await asked.judged(connection)
            filter.before = after
            return try await connection.run { [filter] connection throws(PostgresError) in
                try AuditLog.page(connection, filter, limit: limit + 1)
            }
        }
        let page = entries.prefix(limit).map { $0.shown(to: sight) }
        return JSONAnswer.page(page, next: entries.count > limit ? page.last.map { String($0.id) } : nil)
    }
}
