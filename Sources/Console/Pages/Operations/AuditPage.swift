import Hummingbird
import MessageStore
import Postgres
import Resources
import Vocabulary

/// People's actions by console and command.
struct AuditPage: ConsoleRoutes {
    private static let pageSize = 50

    let services: ConsoleServices

    func add(to router: RouterGroup<ConsoleContext>) {
        router.page("audit", .audit) { [self] request in try await page(request) }
    }

    private func page(_ request: PageRequest) async throws -> HTML {
        let list = try PageList<AuditFilter, Int64>(request, at: "/audit", sight: services.settings.sight) { Int64($0) }
        let (rows, now) = try await services.reader.withConnection { connection in
            let now = try await connection.databaseTime()
            guard list.asked.mistakes.isEmpty else { return ([AuditEntry](), now) }
            var filter = try list.asked.judged(now: now)
            filter.before = list.cursor
            let rows = try await connection.run { [filter] connection throws(PostgresError) in
                try AuditLog.page(connection, filter, limit: Self.pageSize)
            }
            return (rows.map { $0.shown(to: services.settings.sight) }, now)
        }
        return PageShell("Audit", .audit, for: request).document(
            """
            \(Part.head("Audit", "What people did, by this console and by command. Nothing here can be changed."))
            <section class="card">\(list.form)</section>
            <section class="card">\(list.unreadable ?? table(rows, now, isAll: list.isEmpty && list.cursor == nil))\
            \(list.pager(next: rows.count == Self.pageSize ? rows.last?.id : nil))</section>
            """
        )
    }

    private func table(_ rows: [AuditEntry], _ now: Timestamp, isAll: Bool) -> HTML {
        guard !rows.isEmpty else {
            return isAll
                ? Part.empty(
                    "Nothing has been done yet",
                    "Pauses, retries, releases, replays and erasures are recorded here."
                )
                : Part.empty("Nothing matches", "<a href=\"/audit\">Show all entries</a>.")
        }
        return Part.table(
            "Audit trail",
            rows,
            now: now,
            [
                "at",
                PageColumn("who") { row in
                    """
                    <a href="\(PageAddress("/audit").query("who", row.who))">\(stranger: row.who)</a>\
                    <span class="sub">\(row.via) · role \(row.role)</span>
                    """
                },
                "action", "subject", "count", PageColumn("reason", absent: "none given"),
            ]
        )
    }
}
