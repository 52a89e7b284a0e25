import MessageStore

/// People's actions by console and command.
enum AuditPage {
    static func page(_ request: PageRequest) async throws -> HTML {
        let list = try await PageList(request, Lists.audit)
        let columns: [PageColumn<AuditEntry>] = [
            "at",
            PageColumn("who") { row in
                """
                <a href="\(list.base.query("who", row.who))">\(stranger: row.who)</a>\
                <span class="sub">\(row.via) · role \(row.role)</span>
                """
            },
            "action", "subject", "count", PageColumn("reason", absent: "none given"),
        ]
        let hint: HTML = "Pauses, retries, releases, replays and erasures are recorded here."
        return request.document(
            "Audit",
            .audit,
            """
            \(Part.head("Audit", "What people did, by this console and by command. Nothing here can be changed."))
            \(list.form)
            <section class="card">\(list.table("Audit trail", columns, "Nothing has been done yet", hint))\(list.pager)</section>
            """
        )
    }
}
