import Hummingbird
import MessageStore
import Postgres
import Querying
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
        var filter = AuditFilter()
        filter.who = request.query["who"]
        filter.action = request.query["action"]
        filter.before = request.query["cursor"].flatMap { Int64($0) }
        let (rows, now) = try await services.reader.withConnection { [filter] connection in
            let rows = try await connection.run { connection throws(PostgresError) in
                try AuditLog.page(connection, filter, limit: Self.pageSize)
            }
            return (rows.map { $0.shown(to: services.settings.sight) }, try await MessageTail.now(connection))
        }
        let base = PageAddress("/audit").query("who", filter.who).query("action", filter.action)
        let next = rows.count == Self.pageSize ? rows.last.map { base.query("cursor", "\($0.id)") } : nil
        return PageShell("Audit", .audit, for: request).document(
            """
            \(Part.head("Audit", "What people did, by this console and by command. Nothing here can be changed."))
            <section class="card">\(form(filter))</section>
            <section class="card">\(table(rows, filter, now))\
            \(Part.pager(first: filter.before == nil ? nil : base, next: next))</section>
            """
        )
    }

    private func form(_ filter: AuditFilter) -> HTML {
        let options = HTML(AuditAction.allCases) { action in
            let chosen: HTML = action.rawValue == filter.action ? " selected" : ""
            return "<option value=\"\(action.rawValue)\"\(chosen)>\(action.rawValue)</option>"
        }
        return """
            <form class="filter" action="/audit" method="get" role="search">
            <div><label for="f-who">Who</label><input id="f-who" name="who" value="\(exact: filter.who ?? "")" dir="auto" autocomplete="off"></div>
            <div><label for="f-action">Action</label><select id="f-action" name="action"><option value="">any</option>\(options)</select></div>
            <div class="actions"><button class="primary">Search</button>\
            \(HTML.when(filter.who != nil || filter.action != nil, "<a class=\"button ghost\" href=\"/audit\">Clear</a>"))</div></form>
            """
    }

    private func table(_ rows: [AuditEntry], _ filter: AuditFilter, _ now: Timestamp) -> HTML {
        guard !rows.isEmpty else {
            return filter == AuditFilter()
                ? Part.empty(
                    "Nothing has been done yet",
                    "Pauses, retries, releases, replays and erasures are recorded here."
                )
                : Part.empty("Nothing matches", "<a href=\"/audit\">Show all entries</a>.")
        }
        let columns = [
            Column("When"), Column("Who"), Column("Action"), Column("Subject"), Column("Rows", isNumber: true),
            Column("Reason"),
        ]
        return Part.table(
            "Audit trail",
            columns,
            rows.map { row in
                [
                    "\(Part.time(row.at))<span class=\"sub\">\(Part.age(row.at, now: now))</span>",
                    """
                    <a href="\(PageAddress("/audit").query("who", row.who))">\(stranger: row.who)</a>\
                    <span class="sub">\(row.via) · role \(row.role)</span>
                    """,
                    "<span class=\"tag\">\(row.action)</span>",
                    "<span class=\"mono\">\(stranger: row.subject.shortened(300))</span>",
                    row.count.map { "\(Figures.count($0))" } ?? "<span class=\"muted\">–</span>",
                    row.reason.map { "\(stranger: $0)" } ?? "<span class=\"muted\">none given</span>",
                ]
            }
        )
    }
}
