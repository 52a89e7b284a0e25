import Postgres
import Querying
import Resources
import UpstreamKit
import Vocabulary

/// One message with all that is known about it.
enum MessageDetailPage {
    static func page(_ request: PageRequest) async throws -> HTML {
        let reference = request.part("reference")
        let (found, now) = try await request.read { connection in
            (try await MessageLookup(connection).find(reference), try await connection.databaseTime())
        }
        guard let detail = found.details.first else {
            throw Problem.notFound("no message has this key or id; retention may have deleted it: search at /messages")
        }
        guard found.details.count == 1 else {
            let columns: [PageColumn<MessageDetail>] = ["message_key", "sender_id", "category", "received_at"]
            let more = Part.notice(.warning, "There are more: search at /messages for the id and a device or sender.")
            return request.document(
                "Message",
                """
                \(Part.head("Messages with this id", "Ids are unique for each sender."))
                \(HTML.when(found.isCut, more))
                \(Part.rows("Found", found.details, now: now, caption: "Messages", columns))
                """
            )
        }
        let view = View(
            detail: detail.shown(to: request.sight, by: request.services.aliases),
            now: now,
            mayReveal: request.principal.may(.reveal),
            mayAct: request.mayAct
        )
        return request.document(
            "Message",
            """
            <p class="crumb"><a href="/messages">Messages</a> / <span class="mono">\("\(detail.messageKey)")</span></p>
            \(view.head)\(view.notices)\(view.parts)
            """
        )
    }

    struct View {
        var detail: MessageDetail
        var now: Timestamp
        /// Whether the reader may reveal the registration token.
        var mayReveal: Bool
        var mayAct: Bool

        private var key: String { detail.messageKey.description }
        var message: UpstreamMessage? { detail.stored?.message }

        /// Why it is a dead letter comes before what it is.
        var parts: HTML {
            detail.deadLetters.isEmpty
                ? facts + data + attempts + deliveries + conflicts
                : deadLetters + attempts + data + facts + deliveries + conflicts
        }

        /// The form of a replay of this message alone; of one that is done, to all handlers, however often it was sent.
        private var replay: PageAddress {
            let address = PageAddress("/replays/new").query("message_key", key)
            guard detail.deadLetters.isEmpty, detail.deliveries.isEmpty else { return address }
            return address.query("scope", "all").query("include_replayed", "yes")
        }

        var head: HTML {
            """
            <header class="head"><div><h1>Message \(stranger: (message?.messageID ?? key).shortened(80))</h1>
            <p class="lead">\(standing)</p></div>
            <div class="actions"><a class="button" href="\(replay)">Replay this</a>
            <a class="button" href="\(PageAddress("/api/v1/messages").adding(key))">JSON</a></div></header>
            """
        }

        private var standing: HTML {
            let waiting = Amount.counted(detail.deliveries.count, "delivery", plural: "deliveries") + " waiting"
            let badges = [
                (detail.deadLetters.count, Tone.bad, Amount.counted(detail.deadLetters.count, "dead letter")),
                (detail.deliveries.count, .active, waiting),
                (detail.conflicts.count, .warning, Amount.counted(detail.conflicts.count, "conflict")),
            ].filter { $0.0 > 0 }.map { Part.badge($0.1, $0.2) }
            return "<span class=\"tags\">\(badges.isEmpty ? [Part.badge(.good, "nothing pending")] : badges)</span>"
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
            if let stored = detail.stored {
                let shown = MessageColumn.allCases.filter { column in
                    column.traits.secrecy != .payload && (column.traits.isRequired || stored.text(column) != nil)
                }
                facts = Part.facts(stored, now: now, (shown + [.registrationToken]).map(column))
            }
            if let ledger = detail.ledger {
                if let print = ledger.fingerprint {
                    facts.append(("Fingerprint", "<span class=\"mono\">\(print.description)</span>"))
                }
                if message == nil { facts.append(("First received", Part.time(ledger.receivedAt))) }
            }
            return Part.card("Facts", Part.facts(facts))
        }

        private func column(_ column: MessageColumn) -> PageColumn<StoredMessage> {
            func filter(_ name: StaticString) -> PageColumn<StoredMessage> {
                PageColumn(column.name) { row in
                    let text = row.cell(column)
                    return Part.link(PageAddress("/messages").query(name, text), text)
                }
            }
            return switch column {
            case .messageKey: PageColumn(column.name) { _ in "<span class=\"mono\">\(key)</span>" }
            case .receivedAt:
                PageColumn(column.name) { row in
                    """
                    <time class="both" datetime="\(row.cursor.receivedAt.rfc3339)">\(row.cell(column))</time> \
                    <span class="muted">(\(Part.age(row.cursor.receivedAt, now: now)))</span>
                    """
                }
            case .senderID: filter("sender")
            case .category: filter("category")
            case .deviceKey: filter("device")
            case .registrationToken: PageColumn(column.name) { _ in token }
            default: PageColumn(column.name)
            }
        }

        var data: HTML {
            guard let stored = detail.stored else { return "" }
            guard stored.sight.payloads else { return Part.hidden("Data") }
            var parts = HTML()
            let note: HTML = stored.isDataRaw ? Part.badge(.warning, "text that jsonb refuses") : ""
            if let data = stored.shownData {
                parts += Part.card("Data", actions: tools("data", note, data), Self.code("Data", data, path: "data"))
            } else {
                parts += Part.card("Data", Part.empty("The message has no data"))
            }
            if let extra = stored.bytes(.extra) {
                let tools = tools("extra", "", extra)
                parts += Part.card("Other members", actions: tools, Self.code("Other members", extra, path: "extra"))
            }
            return parts
        }

        /// Its size, and what copies the whole of it, which the page may not hold.
        private func tools(_ member: HTML, _ note: HTML, _ data: [UInt8]) -> HTML {
            """
            <div class="actions">\(note)<span class="muted">\(Amount.bytes(Int64(data.count)))</span>
            <button type="button" class="small needs-script" data-copy="\(PageAddress("/api/v1/messages").adding(key))" data-member="\(member)">\
            Copy all</button></div>
            """
        }

        private static func code(_ name: String, _ data: [UInt8], path: HTML) -> HTML {
            let shown = JSONMarkup.html(data)
            let rest: HTML? = shown.rest.map { rest in
                """
                <details class="fold"><summary>The rest, as it came</summary>
                \(Part.code("\(name), the rest", rest))</details>
                """
            }
            let note: HTML = "<p class=\"muted body\">This is the beginning; the JSON has all of it.</p>"
            return "\(Part.json(name, shown.html, path: path))\(rest)\(HTML.when(!shown.isWhole, note))"
        }

        /// The handlers' attempts, including successes.
        var attempts: HTML {
            let hint: HTML = "None was made yet, or they are older than <code>retention.attempts</code>."
            return Part.rows(
                "Attempts",
                detail.attempts.reversed(),
                now: now,
                count: "\(detail.attempts.count)",
                empty: ("No attempts are kept", hint),
                [
                    "started_at", "handler", "attempt", PageColumn("outcome") { Self.outcome($0.outcome) },
                    PageColumn("duration_seconds") { $0.duration.map { "\(Figures.length($0))" } ?? "–" },
                    PageColumn("error_group", title: "Error") { row in
                        let status: HTML = row.status.map { "<span class=\"tag\">HTTP \($0)</span> " } ?? ""
                        return "\(status)\(Part.value(row.errorGroup, .code, now: now) ?? "–")"
                    },
                    "worker",
                ]
            )
        }

        static func outcome(_ outcome: String) -> HTML {
            switch outcome {
            case "done": Part.badge(.good, "done")
            case "retry": Part.badge(.warning, "will be retried")
            case "rejected": Part.badge(.bad, "rejected")
            case "exhausted": Part.badge(.bad, "given up")
            case "released": Part.badge(.idle, "handed back")
            default: Part.badge(.idle, outcome)
            }
        }

        var deliveries: HTML {
            let hint: HTML = "Every subscribed handler has taken this message, or given it up."
            return Part.rows(
                "Waiting deliveries",
                detail.deliveries,
                now: now,
                caption: "Deliveries",
                count: "\(detail.deliveries.count)",
                empty: ("Nothing waits", hint),
                [
                    PageColumn("handler") { "<a href=\"\(HandlerPart.address($0.handler))\">\($0.handler)</a>" },
                    "attempts",
                    "next_attempt_at", "worker", "error",
                ]
            )
        }

        var deadLetters: HTML {
            HTML(detail.deadLetters.enumerated()) { number, row in
                let group = row.errorGroup == Sight.hidden ? nil : row.errorGroup
                let address = PageAddress("/dead/letters").query("handler", row.handler).query("group", group)
                let fields = [("filter.handler", row.handler), ("filter.message_key", key)]
                let acts: HTML = HTML.when(
                    mayAct,
                    "<div class=\"actions\">\(DeadPages.actions("letter-\(number)", "", fields, of: (row.handler, group)))</div>"
                )
                let facts = Part.facts(
                    row,
                    now: now,
                    ["attempts", "died_at", PageColumn("error_group") { Part.link(address, $0.errorGroup ?? "–") }]
                )
                let error: HTML? = row.lastError.map { Part.code("Error of \(row.handler)", "\(stranger: $0)") }
                return Part.card("Dead letter of \(row.handler)", actions: acts, "\(Part.facts(facts))\(error)")
            }
        }

        var conflicts: HTML {
            guard !detail.conflicts.isEmpty else { return "" }
            return Part.rows(
                "Conflicts",
                detail.conflicts,
                now: now,
                count: "\(detail.conflicts.count)\(detail.hasMoreConflicts ? "+" : "")",
                [
                    PageColumn("received_at", title: "First copy") { Part.time($0.copy.cursor.receivedAt) },
                    "times_seen", "fingerprint", PageColumn("released_at", absent: "no"),
                    .actions("Compare") { "<a href=\"\($0.address)\">Compare</a>" },
                ]
            )
        }
    }
}
