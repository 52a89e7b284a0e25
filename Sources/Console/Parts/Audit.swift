import MessageStore
import Postgres
import Resources

/// `GET audit`, and its page: people's actions by console and command.
enum AuditPart {
    static let part = ConsolePart(
        section: Section("Audit", "/audit", "M7 3h10v18H7zM10 8h4M10 12h4M10 16h2"),
        endpoints: [.list("listAudit", list, "What people did, the latest first.", right: .audit)],
        pages: [Page(path: "audit", right: .audit, make: page)]
    )

    private static let list = Listing<AuditFilter, AuditEntry, RowPlace>(address: "/audit", most: 500, use: .look) {
        wanted in
        var filter = wanted.filter
        filter.before = wanted.after?.id
        let entries = try await wanted.connection.run { [filter] in
            try AuditLog.page($0, filter, limit: wanted.limit + 1)
        }
        let rows = entries.prefix(wanted.limit).map { $0.shown(to: wanted.sight) }
        return .init(rows: rows, next: entries.count > wanted.limit ? rows.last.map { "\($0.id)" } : nil)
    }

    private static func page(_ request: PageRequest) async throws -> HTML {
        let list = try await PageList(request, list)
        let columns: [PageColumn<AuditEntry>] = [
            "at",
            PageColumn("who") { row in
                """
                <a href="\(list.base.query("who", row.who))">\(stranger: row.who)</a>\
                <span class="sub">\(row.via) · role \(row.role)</span>
                """
            },
            PageColumn("action") { "<span class=\"tag tight\">\(stranger: $0.action)</span>" }, "subject", "count",
            PageColumn("reason", absent: "none given"),
        ]
        let hint: HTML = "Pauses, retries, releases, replays and erasures are recorded here."
        return list.document(
            request,
            "Audit",
            "What people did, by this console and by command. Nothing here can be changed.",
            list.table("Audit trail", columns, "Nothing has been done yet", hint)
        )
    }
}
