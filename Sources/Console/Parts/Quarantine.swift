import Hummingbird
import Postgres
import Querying
import Resources
import Vocabulary

/// `GET quarantine` and `quarantine/{id}`, and their pages: stanzas that could not become messages.
enum QuarantinePart {
    static let part = ConsolePart(
        section: Section("Quarantine", "/quarantine", "M12 3l8 3v6c0 5-4 8-8 9-4-1-8-4-8-9V6zM12 8v5M12 16v.1"),
        endpoints: [
            .list(
                "listQuarantine",
                list,
                "Stanzas that were no usable message, without their bytes, the latest first."
            ),
            .get("getStanza", "quarantine/{id}", stanza)
                .about("A quarantined stanza as text with its tokens masked.", .one(QuarantineRow.self))
                .takes([id, Parameter.reveal]),
        ],
        pages: [Page(path: "quarantine", make: page), Page(path: "quarantine/:id", make: detail)]
    )

    private static let id = Parameter.path(
        "id",
        schema: #"{"type":"integer","format":"int64"}"#,
        "Its id.",
        "the id of a quarantined stanza, a whole number, as the list gives it"
    ) { Int64($0) }

    private static let list = Listing<QuarantineQuery, QuarantineRow, RowPlace>(address: "/quarantine", most: 1_000) {
        wanted in
        var query = wanted.filter
        (query.limit, query.cursor) = (wanted.limit, wanted.after?.id)
        return .init(try await query.rows(wanted.connection).map { $0.shown(to: wanted.sight) }, wanted.limit) { $0.id }
    }

    private static func stanza(_ request: EndpointRequest) async throws -> Response {
        let (id, sight) = (try request[id], try request.sight)
        guard !sight.tokens || sight.payloads else {
            throw Problem.badRequest("payloads are hidden (console.payloads), so there is no token to reveal")
        }
        guard let found = try await quarantined(id, request.services) else {
            throw Problem.notFound("no quarantined stanza has this id; retention may have deleted it")
        }
        if sight.tokens { try await request.recordReveal(of: 1, "quarantine \(id)") }
        return .json(found.shown(to: sight).json())
    }

    /// A stanza with its bytes, unless these are hidden; nil if there is none.
    private static func quarantined(_ id: Int64, _ services: ConsoleServices) async throws -> QuarantineRow? {
        var query = QuarantineQuery()
        (query.id, query.limit, query.hasStanzas) = (id, 1, services.sight.payloads)
        return try await services.reader.withConnection { [query] in try await query.rows($0) }.first
    }

    // MARK: Pages

    private static var messageID: PageColumn<QuarantineRow> {
        PageColumn("message_id", absent: "none that can be held")
    }
    private static var size: PageColumn<QuarantineRow> {
        PageColumn("bytes", title: "Size") { "\(Amount.bytes($0.byteCount))" }
    }

    private static func page(_ request: PageRequest) async throws -> HTML {
        let list = try await PageList(request, list)
        let columns: [PageColumn<QuarantineRow>] = [
            "last_seen_at", "reason", "detail", "sender_id", messageID, "times_seen", size,
            .actions("Open") { "<a href=\"\(list.base.adding("\($0.id)"))\">Open</a>" },
        ]
        let hint: HTML = "What no message can be made of is kept here with the reason."
        return list.document(
            request,
            "Quarantine",
            "Stanzas that could not be taken as messages, verbatim: one row for each distinct one.",
            list.table("Quarantined stanzas", columns, "Nothing is quarantined", hint)
        )
    }

    private static func detail(_ request: PageRequest) async throws -> HTML {
        guard let id = Int64(request.part("id")) else {
            throw Problem.notFound("a quarantined stanza's id is a number")
        }
        guard let row = try await quarantined(id, request.services)?.shown(to: request.sight) else {
            throw Problem.notFound("no stanza is quarantined under \(id): see /quarantine")
        }
        let now = try await request.read { try await $0.databaseTime() }
        let facts: [PageColumn<QuarantineRow>] = [
            PageColumn("received_at", title: "First seen") { Part.time($0.receivedAt) }, "last_seen_at",
            PageColumn("times_seen", title: "Times seen"), "sender_id", messageID, size,
        ]
        let shown = request.sight.payloads ? stanza(row, isHex: request.query["view"] == "hex") : Part.hidden("Stanza")
        return request.document(
            "Quarantined stanza \(id)",
            """
            <p class="crumb"><a href="/quarantine">Quarantine</a> / \(id)</p>
            \(Part.head("Quarantined stanza \(id)", "<span class=\"tag\">\(stranger: row.reason)</span> \(stranger: row.detail)"))
            \(Part.card("Facts", Part.facts(Part.facts(row, now: now, facts))))
            \(shown)
            """
        )
    }

    private static func stanza(_ row: QuarantineRow, isHex: Bool) -> HTML {
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
            ? HexDump.html(masked) : "\(stranger: TerminalText.escape(bytes: Array(masked.prefix(128 << 10))))"
        return Part.card("Stanza", actions: tabs, Part.code("Stanza", content, isWide: isHex))
    }
}
