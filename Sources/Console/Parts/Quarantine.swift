import Hummingbird
import MessageStore
import Postgres
import Querying
import Resources
import Vocabulary

/// `GET quarantine`, `quarantine/export` and `quarantine/{id}`, `POST quarantine/dismiss` and `quarantine/{id}/dismiss`,
/// and their pages: stanzas that could not become messages.
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
            .get("exportQuarantine", "quarantine/export", export)
                .about(
                    "Quarantined stanzas with their tokens masked, the oldest first, one JSON object a line.",
                    .stream("application/x-ndjson", "Lines")
                )
                .takes(QuarantineQuery.parameters + [lastLine]),
            .action("dismissStanza", "quarantine/{id}/dismiss", dismiss)
                .about("Takes a stanza off the list until it comes again.").takes([id]),
            .action("dismissStanzas", "quarantine/dismiss", dismissAll)
                .about("Takes stanzas off the list until they come again.")
                .takes([], body: [ActionBody.all, filter, ActionBody.asOf]),
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

    private static let lastLine = Parameter.after(about: "The id of the last line there is.", RowPlace.init)

    private static let lines = LineExport<QuarantineQuery, [QuarantineRow]>(name: "quarantine") { query, connection in
        var query = query
        let page = try await query.next(connection)
        return (page.rows, page.isFull ? query : nil)
    } lines: { rows, sight in
        rows.flatMap { $0.shown(to: sight).json() + [UInt8(ascii: "\n")] }
    }

    private static func export(_ request: EndpointRequest) async throws -> Response {
        let (asked, services, after) = (
            try request.filter(QuarantineQuery.self), request.services, try request[lastLine]
        )
        return try await lines.response(services) { connection in
            var query = try await asked.judged(connection)
            (query.order, query.cursor, query.hasStanzas) = (.oldestFirst, after?.id, services.sight.payloads)
            (query.limit, query.byteLimit) = (1_000, AnswerBounds.part)
            return query
        }
    }

    // MARK: Dismissing

    private static let filter = FilterMember<QuarantineQuery>()

    private static func dismiss(_ request: ActionRequest) async throws -> Response {
        var query = QuarantineQuery()
        query.id = try request[id]
        let act = BulkAction(act(query), total: 1, by: request.author)
        return try await request.perform { connection throws(PostgresError) in
            guard try act.begin(connection) > 0 else {
                return .failure(.notFound("no quarantined stanza has this id; retention may have deleted it"))
            }
            return .success(ActionAnswer(["done": 1, "more": false] as JSONObject))
        }
    }

    /// Dismisses what the filter selects and was last seen by `as_of`, so that nobody dismisses what they didn't see.
    private static func dismissAll(_ request: ActionRequest) async throws -> Response {
        let asked = try (request.body[filter] ?? ActionBody()).asked(QuarantineQuery.self, request.services.sight)
        guard request.body[ActionBody.all] == true || !asked.isEmpty else {
            throw Problem.badRequest("give a filter, or \"all\": true")
        }
        guard asked.filter.state == nil else {
            throw Problem.badRequest("'filter.state' selects nothing that can be dismissed: leave it out")
        }
        let (seenBy, author) = (try request.body.time, request.author)
        return try await request.perform(on: asked, at: seenBy) { connection, filter, time throws(PostgresError) in
            var query = filter
            if seenBy != nil { query.seenBy = time }
            let act = act(query)
            let count = try BulkAction(act, total: act.batch, by: author).begin(connection)
            var answer: JSONObject = ["done": count, "more": count == act.batch, "as_of": time]
            if count == act.batch { answer.add("why", "There may be more: dismiss again.") }
            return .success(ActionAnswer(answer))
        }
    }

    private static func act(_ query: QuarantineQuery) -> BulkAction.Act {
        .dismiss(query.condition, "quarantine" + query.description)
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
            .actions {
                """
                <div class="actions"><a href="\(list.base.adding("\($0.id)"))">Open</a>\
                \(HTML.when(request.mayAct && $0.dismissedAt == nil, button($0)))</div>
                """
            },
        ]
        let mayDismiss = request.mayAct && !list.rows.isEmpty && !list.isEmpty && list.asked.filter.state == nil
        let seen = mayDismiss ? LagNote.seen(by: list.now) : nil
        let actions: HTML = """
            \(seen.map { dismissThese(list.members, as: $0) } ?? "")\
            <a class="button" href="\(list.address("/api/v1/quarantine/export"))" download>Export NDJSON</a>
            """
        let hint: HTML = "What no message can be made of is kept here with the reason."
        return list.document(
            request,
            "Quarantine",
            "Stanzas that could not be taken as messages, verbatim: one row for each distinct one.",
            actions: actions,
            "<div id=\"stanzas\" data-live>\(list.table("Quarantined stanzas", columns, "Nothing is quarantined", hint))</div>"
        )
    }

    /// The button that takes a stanza off the list.
    private static func button(_ row: QuarantineRow) -> HTML {
        let address = PageAddress("/api/v1/quarantine").adding("\(row.id)").adding("dismiss")
        return Act.button("Dismiss", address, done: "Dismissed")
    }

    private static func dismissThese(_ fields: [(String, String)], as now: Timestamp) -> HTML {
        Act.dialog(
            "dismiss",
            "Dismiss these",
            "/api/v1/quarantine/dismiss",
            done: "Dismissed",
            isSmall: false,
            fields: fields + [("as_of", now.rfc3339)],
            """
            <p>All that the filter selects and that did not come again since \(Part.time(now)) leave the list, until they come again. \
            They are kept with their bytes, and found by the state <code>dismissed</code>.</p>\(Act.reason("dismiss"))
            """
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
            PageColumn("times_seen", title: "Times seen"), "sender_id", messageID, size, "dismissed_at",
        ]
        let act = HTML.when(request.mayAct && row.dismissedAt == nil, button(row))
        // Storing takes a worker's rights and its senders' settings, which the console does not have.
        let again: HTML = """
            <p class="muted">Has the reason gone, by a new version or configuration? A worker's user stores and delivers it: \
            <code>upstream-worker quarantine retry \(id)</code></p>
            """
        let shown = request.sight.payloads ? stanza(row, isHex: request.query["view"] == "hex") : Part.hidden("Stanza")
        return request.document(
            "Quarantined stanza \(id)",
            """
            <p class="crumb"><a href="/quarantine">Quarantine</a> / \(id)</p>
            \(Part.head("Quarantined stanza \(id)", "<span class=\"tag\">\(stranger: row.reason)</span> \(stranger: row.detail)", actions: act))
            \(Part.card("Facts", Part.facts(Part.facts(row, now: now, facts))))
            \(HTML.when(request.mayAct, again))
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
