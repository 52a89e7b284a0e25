import Hummingbird
import Postgres
import Querying
import UpstreamKit
import Vocabulary

/// One message with all that is known about it.
struct MessageDetailPage: ConsoleRoutes {
    let services: ConsoleServices

    func add(to router: RouterGroup<ConsoleContext>) {
        router.page("messages/:reference") { [self] request in try await page(request) }
    }

    private func page(_ request: PageRequest) async throws -> HTML {
        let reference = request.part("reference")
        let (found, now) = try await services.reader.withConnection { connection in
            (try await MessageLookup(connection).find(reference), try await connection.databaseTime())
        }
        let shell = PageShell("Message", .messages, for: request)
        guard let detail = found.first else {
            throw Problem.notFound("no message has this key or id; retention may have deleted it: search at /messages")
        }
        guard found.count == 1 else {
            let columns = [Column("Key"), Column("Sender"), Column("Category"), Column("Received")]
            let rows = found.map { detail -> [HTML] in
                let message = detail.stored?.message
                return [
                    Part.key(detail.messageKey.description, PageAddress("/messages").adding("\(detail.messageKey)")),
                    "\(stranger: message?.senderID ?? "–")", "\(stranger: message?.category ?? "–")",
                    message.map { Part.time(Timestamp(microseconds: $0.receivedAtMicroseconds)) } ?? "–",
                ]
            }
            return shell.document(
                """
                \(Part.head("Messages with this id", "Ids are unique for each sender."))
                \(HTML.when(found.isCut, Part.notice(.warning, "There are more: search at /messages for the id and a device or sender.")))
                \(Part.card("Found", count: "\(found.count)", Part.table("Messages", columns, rows)))
                """
            )
        }
        let view = View(
            detail: detail.shown(to: services.settings.sight, by: services.aliases),
            now: now,
            showsPayloads: services.settings.showsPayloads,
            mayReveal: request.principal.may(.reveal)
        )
        return shell.document(
            """
            <p class="crumb"><a href="/messages">Messages</a> / <span class="mono">\("\(detail.messageKey)")</span></p>
            \(view.head)\(view.notices)\(view.facts)\(view.data)\(view.attempts)\(view.deliveries)\(view.deadLetters)\(view.conflicts)
            """
        )
    }

    struct View {
        var detail: MessageDetail
        var now: Timestamp
        var showsPayloads: Bool
        /// Whether the reader may reveal the registration token.
        var mayReveal: Bool

        private var key: String { detail.messageKey.description }
        var message: UpstreamMessage? { detail.stored?.message }

        var head: HTML {
            """
            <header class="head"><div><h1>Message \(stranger: (message?.messageID ?? key).shortened(80))</h1>
            <p class="lead">\(standing)</p></div>
            <div class="actions"><a class="button" href="\(PageAddress("/replays/new").query("message_key", key))">Replay this</a>
            <a class="button" href="\(PageAddress("/api/v1/messages").adding(key))">JSON</a></div></header>
            """
        }

        /// Its state as badges.
        private var standing: HTML {
            var badges: [HTML] = []
            if !detail.deadLetters.isEmpty {
                badges.append(Part.badge(.bad, Figures.count(detail.deadLetters.count, "dead letter")))
            }
            if !detail.deliveries.isEmpty {
                badges.append(
                    Part.badge(.active, Figures.count(detail.deliveries.count, "delivery", "deliveries") + " waiting")
                )
            }
            if !detail.conflicts.isEmpty {
                badges.append(Part.badge(.warning, Figures.count(detail.conflicts.count, "conflict")))
            }
            if badges.isEmpty { badges.append(Part.badge(.good, "nothing pending")) }
            return "<span class=\"tags\">\(badges)</span>"
        }

        var notices: HTML {
            var notices = HTML()
            if let other = detail.conflictsWith {
                notices += Part.notice(
                    .warning,
                    """
                    This is the content of a released conflict; the message that was acked as stored is \
                    \(Part.key("\(other)", PageAddress("/messages").adding("\(other)"))).
                    """
                )
            }
            if message == nil {
                notices += Part.notice(
                    .warning,
                    "Retention has deleted the body; the ledger keeps the key so that copies are recognised."
                )
            }
            return notices
        }

        /// A placeholder for the registration token, which no page holds: the API reveals and records it.
        private var token: HTML {
            guard mayReveal else { return "<span class=\"muted\">masked</span>" }
            return """
                <span class="muted">masked</span> \
                <button type="button" class="small needs-script" data-reveal="/api/v1/messages/\(key)?reveal=token">Reveal</button>
                """
        }

        var facts: HTML {
            var facts: [(String, HTML)] = []
            if let message {
                let time = Timestamp(microseconds: message.receivedAtMicroseconds)
                let device = message.deviceKey.description
                facts = [
                    (
                        "Received",
                        """
                        <time class="both" datetime="\(time.rfc3339)">\(Figures.moment(time))</time> \
                        <span class="muted">(\(Part.age(time, now: now)))</span>
                        """
                    ),
                    ("Category", link(PageAddress("/messages").query("category", message.category), message.category)),
                    ("Message id", "<span class=\"mono\">\(stranger: message.messageID.shortened(300))</span>"),
                    ("Sender", link(PageAddress("/messages").query("sender", message.senderID), message.senderID)),
                    ("Device key", link(PageAddress("/messages").query("device", device), device)),
                    ("Message key", "<span class=\"mono\">\(key)</span>"),
                    ("Registration token", token),
                ]
                if let type = message.messageType { facts.append(("Type", "\(stranger: type)")) }
                if let from = detail.stored?.stanzaFrom {
                    facts.append(("Stanza from", "<span class=\"mono\">\(stranger: from)</span>"))
                }
            }
            if let ledger = detail.ledger {
                if let print = ledger.fingerprint {
                    facts.append(("Fingerprint", "<span class=\"mono\">\(print.description)</span>"))
                }
                if message == nil { facts.append(("First received", Part.time(ledger.receivedAt))) }
            }
            return Part.card("Facts", Part.facts(facts))
        }

        private func link(_ address: PageAddress, _ text: String) -> HTML {
            "<a class=\"mono\" href=\"\(address)\">\(stranger: text)</a>"
        }

        var data: HTML {
            guard let message else { return "" }
            guard showsPayloads else {
                return Part.card(
                    "Data",
                    Part.empty(
                        "Payloads are hidden here",
                        "The configuration says so: <code>console.payloads: hidden</code>."
                    )
                )
            }
            var parts = HTML()
            let note: HTML =
                detail.stored?.isDataRaw == true ? Part.badge(.warning, "text that jsonb refuses") : HTML()
            let token = message.registrationToken.rawValue
            if let data = message.data.map({ TokenMask.mask($0, of: token) }) {
                parts += Part.card("Data", actions: note + size(data), Self.code("Data", data))
            } else {
                parts += Part.card("Data", Part.empty("The message has no data"))
            }
            if let extra = message.extra.map({ TokenMask.mask($0, of: token) }) {
                parts += Part.card("Other members", actions: size(extra), Self.code("Other members", extra))
            }
            return parts
        }

        private func size(_ data: [UInt8]) -> HTML {
            "<span class=\"muted\">\(Figures.bytes(Int64(data.count)))</span>"
        }

        private static func code(_ name: String, _ data: [UInt8]) -> HTML {
            let shown = JSONMarkup.html(data)
            let rest: HTML? = shown.rest.map { rest in
                """
                <details class="fold"><summary>The rest, as it came</summary>
                <pre class="code" tabindex="0" role="region" aria-label="\(name), the rest">\(rest)</pre></details>
                """
            }
            let note: HTML = "<p class=\"muted body\">This is the beginning; the JSON has all of it.</p>"
            return """
                <pre class="code" tabindex="0" role="region" aria-label="\(name)">\(shown.html)</pre>\(rest)\(HTML.when(!shown.isWhole, note))
                """
        }

        var deliveries: HTML {
            let columns = [
                Column("Handler"), Column("Attempts", isNumber: true), Column("Next attempt"), Column("Held by"),
                Column("Last error"),
            ]
            let rows = detail.deliveries.map { row -> [HTML] in
                [
                    "<a href=\"/handlers\">\(row.handler)</a>", "\(Figures.count(row.attempts))",
                    Part.age(row.nextAttemptAt, now: now), "<span class=\"mono\">\(row.leaseOwner ?? "–")</span>",
                    Self.error(row.lastError),
                ]
            }
            let body =
                rows.isEmpty
                ? Part.empty("Nothing waits", "Every subscribed handler has taken this message, or given it up.")
                : Part.table("Deliveries", columns, rows)
            return Part.card("Waiting deliveries", count: "\(rows.count)", body)
        }

        var deadLetters: HTML {
            guard !detail.deadLetters.isEmpty else { return "" }
            let columns = [
                Column("Handler"), Column("Attempts", isNumber: true), Column("Died"), Column("Group"),
                Column("Last error"),
            ]
            let rows = detail.deadLetters.map { row -> [HTML] in
                [
                    "\(row.handler)", "\(Figures.count(row.attempts))",
                    row.diedAt.map { Part.age($0, now: now) } ?? "–",
                    link(
                        PageAddress("/dead").query("handler", row.handler)
                            .query("group", row.errorGroup == Sight.hidden ? nil : row.errorGroup),
                        row.errorGroup ?? "–"
                    ),
                    Self.error(row.lastError),
                ]
            }
            return Part.card("Dead letters", count: "\(rows.count)", Part.table("Dead letters", columns, rows))
        }

        static func error(_ text: String?) -> HTML {
            guard let text else { return "<span class=\"muted\">–</span>" }
            return "<span class=\"mono\">\(stranger: text.shortened(400))</span>"
        }

        var conflicts: HTML {
            guard !detail.conflicts.isEmpty else { return "" }
            let columns = [
                Column("First copy"), Column("Seen", isNumber: true), Column("Fingerprint"), Column("Released"),
                Column("Compare", isHidden: true),
            ]
            let rows = detail.conflicts.map { row -> [HTML] in
                let address = PageAddress("/conflicts").adding(key).adding("\(row.name)")
                return [
                    Part.time(row.copy.cursor.receivedAt), "\(Figures.count(row.timesSeen))",
                    "<span class=\"mono\">\("\(row.name)")</span>",
                    row.releasedAt.map { Part.age($0, now: now) } ?? "<span class=\"muted\">no</span>",
                    "<a href=\"\(address)\">Compare</a>",
                ]
            }
            let count = "\(rows.count)\(detail.hasMoreConflicts ? "+" : "")"
            return Part.card("Conflicts", count: count, Part.table("Conflicts", columns, rows))
        }
    }
}
