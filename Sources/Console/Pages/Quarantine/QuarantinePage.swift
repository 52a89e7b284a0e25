import Hummingbird
import Postgres
import Querying
import Resources
import Vocabulary

/// Stanzas that could not become messages: a list, and each as text and as bytes.
struct QuarantinePage: ConsoleRoutes {
    private static let pageSize = 50

    let services: ConsoleServices

    func add(to router: RouterGroup<ConsoleContext>) {
        router.page("quarantine") { [self] request in try await list(request) }
        router.page("quarantine/:id") { [self] request in try await detail(request) }
    }

    private func list(_ request: PageRequest) async throws -> HTML {
        let list = try PageList<QuarantineQuery, Int64>(
            request,
            at: "/quarantine",
            sight: services.settings.sight
        ) { Int64($0) }
        let (rows, now) = try await services.reader.withConnection(.search) { connection in
            let now = try await connection.databaseTime()
            guard list.asked.mistakes.isEmpty else { return ([QuarantineRow](), now) }
            var query = try list.asked.judged(now: now)
            (query.cursor, query.limit) = (list.cursor, Self.pageSize)
            return (try await query.rows(connection), now)
        }
        return PageShell("Quarantine", .quarantine, for: request).document(
            """
            \(Part.head("Quarantine", "Stanzas that could not be taken as messages, verbatim: one row for each distinct one."))
            <section class="card">\(list.form)</section>
            <section class="card">\(list.unreadable ?? table(rows, now, isAll: list.isEmpty && list.cursor == nil))\
            \(list.pager(next: rows.count == Self.pageSize ? rows.last?.id : nil))</section>
            """
        )
    }

    private func table(_ rows: [QuarantineRow], _ now: Timestamp, isAll: Bool) -> HTML {
        guard !rows.isEmpty else {
            return isAll
                ? Part.empty("Nothing is quarantined", "What no message can be made of is kept here with the reason.")
                : Part.empty("Nothing matches", "<a href=\"/quarantine\">Show all of it</a>.")
        }
        return Part.table(
            "Quarantined stanzas",
            rows,
            now: now,
            [
                "last_seen_at", "reason", "detail", "sender_id", Self.messageID, "times_seen", Self.size,
                .actions("Open") { "<a href=\"\(PageAddress("/quarantine").adding("\($0.id)"))\">Open</a>" },
            ]
        )
    }

    private static var facts: [PageColumn<QuarantineRow>] {
        [
            PageColumn("received_at", title: "First seen") { Part.time($0.receivedAt) }, "last_seen_at",
            PageColumn("times_seen", title: "Times seen"), "sender_id", messageID, size,
        ]
    }
    private static var messageID: PageColumn<QuarantineRow> {
        PageColumn("message_id", absent: "none that can be held")
    }
    private static var size: PageColumn<QuarantineRow> {
        PageColumn("bytes", title: "Size") { "\(Figures.bytes($0.byteCount))" }
    }

    private func detail(_ request: PageRequest) async throws -> HTML {
        guard let id = Int64(request.part("id")) else {
            throw Problem.notFound("a quarantined stanza's id is a number")
        }
        var query = QuarantineQuery()
        query.id = id
        query.hasStanzas = services.settings.showsPayloads
        query.limit = 1
        let (rows, now) = try await services.reader.withConnection { [query] connection in
            (try await query.rows(connection), try await connection.databaseTime())
        }
        guard let row = rows.first?.shown(to: services.settings.sight) else {
            throw Problem.notFound("no stanza is quarantined under \(id): see /quarantine")
        }
        let isHex = request.query["view"] == "hex"
        return PageShell("Quarantined stanza \(row.id)", .quarantine, for: request).document(
            """
            <p class="crumb"><a href="/quarantine">Quarantine</a> / \(row.id)</p>
            \(Part.head("Quarantined stanza \(row.id)", "<span class=\"tag\">\(stranger: row.reason)</span> \(stranger: row.detail)"))
            \(Part.card("Facts", Part.facts(Part.facts(row, now: now, Self.facts))))
            \(stanza(row, isHex: isHex))
            """
        )
    }

    private func stanza(_ row: QuarantineRow, isHex: Bool) -> HTML {
        guard services.settings.showsPayloads else { return Part.hidden("Stanza") }
        let base = PageAddress("/quarantine").adding("\(row.id)")
        func tab(_ name: String, _ address: PageAddress, _ isCurrent: Bool) -> HTML {
            "<a href=\"\(address)\"\(HTML.when(isCurrent, " aria-current=\"page\""))>\(name)</a>"
        }
        let tabs: HTML = """
            <nav class="tabs" aria-label="View">\(tab("Text", base, !isHex))\(tab("Hex", base.query("view", "hex"), isHex))</nav>
            """
        // Apparent registration tokens are masked in both.
        let masked = StanzaMask.mask(row.stanza.bytes)
        let content: HTML =
            isHex
            ? HexDump.html(masked)
            : "\(stranger: TerminalText.escape(bytes: Array(masked.prefix(128 << 10))))"
        let width: HTML = isHex ? "code wide" : "code"
        return Part.card(
            "Stanza",
            actions: tabs,
            "<pre class=\"\(width)\" tabindex=\"0\" role=\"region\" aria-label=\"Stanza\">\(content)</pre>"
        )
    }
}
