import Postgres
import Querying
import Resources
import Vocabulary

/// Stanzas that could not become messages: a list, and each as text and as bytes.
enum QuarantinePage {
    private static var messageID: PageColumn<QuarantineRow> {
        PageColumn("message_id", absent: "none that can be held")
    }
    private static var size: PageColumn<QuarantineRow> {
        PageColumn("bytes", title: "Size") { "\(Figures.bytes($0.byteCount))" }
    }

    static func list(_ request: PageRequest) async throws -> HTML {
        let list = try await PageList(request, Lists.quarantine)
        let columns: [PageColumn<QuarantineRow>] = [
            "last_seen_at", "reason", "detail", "sender_id", messageID, "times_seen", size,
            .actions("Open") { "<a href=\"\(list.base.adding("\($0.id)"))\">Open</a>" },
        ]
        let hint: HTML = "What no message can be made of is kept here with the reason."
        let lead: HTML = "Stanzas that could not be taken as messages, verbatim: one row for each distinct one."
        return request.document(
            "Quarantine",
            .quarantine,
            """
            \(Part.head("Quarantine", lead))
            \(list.form)
            <section class="card">\(list.table("Quarantined stanzas", columns, "Nothing is quarantined", hint))\
            \(list.pager)</section>
            """
        )
    }

    static func detail(_ request: PageRequest) async throws -> HTML {
        guard let id = Int64(request.part("id")) else {
            throw Problem.notFound("a quarantined stanza's id is a number")
        }
        guard let row = try await OddRoutes.quarantined(id, request.services)?.shown(to: request.services.sight) else {
            throw Problem.notFound("no stanza is quarantined under \(id): see /quarantine")
        }
        let now = try await request.services.reader.withConnection { try await $0.databaseTime() }
        let facts: [PageColumn<QuarantineRow>] = [
            PageColumn("received_at", title: "First seen") { Part.time($0.receivedAt) }, "last_seen_at",
            PageColumn("times_seen", title: "Times seen"), "sender_id", messageID, size,
        ]
        let shown =
            request.services.sight.payloads ? stanza(row, isHex: request.query["view"] == "hex") : Part.hidden("Stanza")
        return request.document(
            "Quarantined stanza \(id)",
            .quarantine,
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
