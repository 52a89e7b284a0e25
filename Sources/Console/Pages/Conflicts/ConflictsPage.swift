import Hummingbird
import Postgres
import Querying
import Resources
import UpstreamKit
import Vocabulary

/// Known ids with other content: a list, and each next to the accepted message.
struct ConflictsPage: ConsoleRoutes {
    private static let pageSize = 50

    let services: ConsoleServices

    func add(to router: RouterGroup<ConsoleContext>) {
        router.page("conflicts") { [self] request in try await list(request) }
        router.page("conflicts/:key/:fingerprint") { [self] request in try await compare(request) }
    }

    private func list(_ request: PageRequest) async throws -> HTML {
        let aliases = services.aliases
        let list = try PageList<MessageFilter, ConflictCursor>(
            request,
            at: "/conflicts",
            sight: services.settings.sight,
            ConflictCursor.init
        )
        var cursor = list.cursor
        if let name = cursor?.fingerprint { cursor?.fingerprint = aliases.fingerprint(of: name) }
        let (found, now) = try await services.reader.withConnection(.search) { [cursor] connection in
            let now = try await connection.databaseTime()
            guard list.asked.mistakes.isEmpty else { return ((rows: [ConflictRow](), isFull: false), now) }
            var query = ConflictQuery(filter: try list.asked.judged(now: now), after: cursor, limit: Self.pageSize)
            query.byteLimit = AnswerBounds.page
            return (try await query.page(connection), now)
        }
        let rows = found.rows.map { aliases.named($0).shown(to: services.settings.sight) }
        return PageShell("Conflicts", .conflicts, for: request).document(
            """
            \(Part.head("Conflicts", "Copies that came under a known id with other content. The first copy was stored; these wait for a decision."))
            <section class="card">\(list.form)</section>
            <section class="card">\(list.unreadable ?? Self.table(rows, now))\
            \(list.pager(next: found.isFull ? rows.last?.namedCursor : nil))</section>
            """
        )
    }

    private static func table(_ rows: [ConflictRow], _ now: Timestamp) -> HTML {
        guard !rows.isEmpty else {
            return Part.empty(
                "No conflicts",
                "A device that uses an id twice for different content would show up here."
            )
        }
        return Part.table(
            "Conflicts",
            rows,
            now: now,
            [
                "last_seen_at", "category", "message_id", "device_key", "times_seen",
                PageColumn("released_at", title: "State", cell: Self.state),
                .actions("Compare") { row in
                    let address = PageAddress("/conflicts").adding("\(row.copy.message.messageKey)")
                    return "<a href=\"\(address.adding("\(row.name)"))\">Compare</a>"
                },
            ]
        )
    }

    private static func state(_ row: ConflictRow) -> HTML {
        row.releasedAt == nil ? Part.badge(.warning, "open") : Part.badge(.good, "released")
    }

    // MARK: Side by side

    private func compare(_ request: PageRequest) async throws -> HTML {
        guard let key = MessageKey(request.part("key")), let name = Digest128(uuid: request.part("fingerprint").utf8)
        else { throw Problem.notFound("a conflict is named by a message_key and a fingerprint: see /conflicts") }
        var filter = MessageFilter()
        filter.messageKey = key
        let print = services.aliases.fingerprint(of: name)
        let query = ConflictQuery(filter: filter, fingerprint: print, limit: 1)
        let (rows, stored, now) = try await services.reader.withConnection { connection in
            (
                try await query.rows(connection),
                try await MessageLookup(connection).detail(key, conflictBytes: 0)?.stored,
                try await connection.databaseTime()
            )
        }
        guard let row = rows.first else { throw Problem.notFound("there is no such conflict any more: see /conflicts") }
        let view = Comparison(
            row: services.aliases.named(row).shown(to: services.settings.sight),
            stored: stored?.shown(to: services.settings.sight),
            now: now,
            mayAct: request.mayAct
        )
        return PageShell("Conflict", .conflicts, for: request).document(
            """
            <p class="crumb"><a href="/conflicts">Conflicts</a> / <span class="mono">\("\(key)")</span></p>
            <div id="conflict" class="stack" data-live>\(view.head)\(view.notice)\(view.facts)</div>\(view.diff)
            """
        )
    }

    private struct Comparison {
        var row: ConflictRow
        var stored: StoredMessage?
        var now: Timestamp
        var mayAct: Bool

        private var showsPayloads: Bool { row.copy.sight.payloads }
        private var key: String { "\(row.copy.message.messageKey)" }

        var head: HTML {
            let address = PageAddress("/api/v1/conflicts").adding(key).adding("\(row.name)").adding("release")
            let release: HTML =
                mayAct && row.releasedAt == nil
                ? Act.dialog(
                    "release",
                    "Release",
                    address,
                    done: "Released to its handlers",
                    kind: .primary,
                    isSmall: false,
                    """
                    <p>The conflicting copy is handed to the handlers of its category, under a key of its own. The stored message stays \
                    as it is. This can't be taken back.</p>\(Act.reason("release"))
                    """
                ) : ""
            return """
                <header class="head"><div><h1>Conflict on \(stranger: row.copy.message.messageID.shortened(80))</h1>
                <p class="lead">\(ConflictsPage.state(row))</p></div>
                <div class="actions"><a class="button" href="\(PageAddress("/messages").adding(key))">Stored message</a>\(release)</div></header>
                """
        }

        var notice: HTML {
            guard let at = row.releasedAt else { return "" }
            let who: HTML = row.releasedBy.map { " by the role <strong>\($0)</strong>" } ?? ""
            let address = PageAddress("/messages").adding("\(row.releaseKey)")
            let key: HTML = showsPayloads ? "; handlers know it as \(Part.key("\(row.releaseKey)", address))" : ""
            return Part.notice(.good, "Released \(Part.age(at, now: now))\(who)\(key).")
        }

        var facts: HTML {
            let facts: [PageColumn<ConflictRow>] = [
                PageColumn("received_at", title: "First received") { Part.time($0.copy.cursor.receivedAt) },
                PageColumn("last_seen_at", title: "Last received"), PageColumn("times_seen", title: "Times seen"),
                "category", "sender_id",
                showsPayloads ? "fingerprint" : PageColumn("fingerprint") { _ in "hidden" },
            ]
            return Part.card("The conflicting copy", Part.facts(Part.facts(row, now: now, facts)))
        }

        var diff: HTML {
            guard showsPayloads else { return Part.hidden("Difference") }
            guard let stored else {
                return Part.card(
                    "Difference",
                    Part.empty(
                        "The stored message is gone",
                        "Retention has deleted its body, so there is nothing to compare with."
                    )
                )
            }
            let rows = TextDiff.rows(Self.lines(stored), Self.lines(row.copy))
            let changes = rows.count { $0.left != $0.right }
            return Part.card(
                "Difference",
                count: Figures.count(changes, "line"),
                """
                <div class="diff"><div><h3>Stored</h3>\(Self.side("Stored", rows.map(\.left), "gone"))</div>
                <div><h3>Conflicting copy</h3>\(Self.side("Conflicting copy", rows.map(\.right), "new"))</div></div>
                """
            )
        }

        /// What the fingerprint covers, except tokens.
        private static func lines(_ message: StoredMessage) -> [String] {
            var lines = [
                "category: \(message.message.category)", "device_key: \(message.message.deviceKey)",
                "message_type: \(message.message.messageType ?? "none")", "data:",
            ]
            lines += message.shownData.map { JSONLayout.lines($0, limit: TextDiff.limit) } ?? ["none"]
            return lines
        }

        /// The most characters shown of a line, and the most bytes of HTML for all lines.
        private static let (widest, longest) = (4_000, 512 << 10)

        private static func side(_ name: String, _ lines: [TextDiff.Line], _ change: StaticString) -> HTML {
            let style = HTML(stringLiteral: change)
            var rows = HTML()
            for line in lines {
                switch line {
                case .same(let text): rows += "<span class=\"row\">\(stranger: text.shortened(Self.widest))</span>"
                case .different(let text):
                    rows += "<span class=\"row \(style)\">\(stranger: text.shortened(Self.widest))</span>"
                case .absent: rows += "<span class=\"row\"></span>"
                }
                guard rows.bytes.count < Self.longest else {
                    rows += "<span class=\"row\">…</span>"
                    break
                }
            }
            return "<pre tabindex=\"0\" role=\"region\" aria-label=\"\(name)\">\(rows)</pre>"
        }
    }
}
