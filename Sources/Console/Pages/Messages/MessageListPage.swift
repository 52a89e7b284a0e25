import Hummingbird
import Postgres
import Querying
import UpstreamKit
import Vocabulary

/// The messages: a filter, a page of rows and the live tail.
struct MessageListPage: ConsoleRoutes {
    private static let pageSize = 50
    /// The length of a payload's preview in bytes.
    private static let previewLength = 160

    let services: ConsoleServices

    func add(to router: RouterGroup<ConsoleContext>) {
        router.page("messages") { [self] request in try await page(request) }
    }

    private func page(_ request: PageRequest) async throws -> HTML {
        let text = request.query["cursor"]
        let cursor = text.flatMap { MessageCursor($0) }
        if text != nil, cursor == nil { throw Problem.badRequest("cursor is no position: begin at /messages") }
        let (query, rows, isFull, now) = try await services.reader.withConnection(.search) { connection in
            let now = try await MessageTail.now(connection)
            let query = MessageQuery(
                request.query,
                now: now,
                showsPayloads: services.settings.showsPayloads,
                request.principal
            )
            guard query.mistakes.isEmpty else { return (query, [StoredMessage](), false, now) }
            var pager = MessagePager(query.filter, .newestFirst, limit: Self.pageSize, after: cursor)
            (pager.byteLimit, pager.countsVerbatim) = (AnswerBounds.page, true)
            let page = try await pager.next(connection)
            return (query, try page.messages, page.isFull, now)
        }
        let view = View(query: query, now: now, showsPayloads: services.settings.showsPayloads)
        let next = isFull ? rows.last.map { query.address("/messages").query("cursor", "\($0.cursor)") } : nil
        let first = cursor == nil ? nil : query.address("/messages")
        return PageShell("Messages", .messages, for: request).document(
            """
            \(Part.head("Messages", "What devices sent, the newest first.", actions: view.actions(isFirst: cursor == nil)))
            <section class="card">\(view.form)</section>
            <section class="card">\(view.list(rows, isFirst: cursor == nil))\(Part.pager(first: first, next: next))</section>
            """
        )
    }

    private struct View {
        var query: MessageQuery
        var now: Timestamp
        var showsPayloads: Bool

        func actions(isFirst: Bool) -> HTML {
            let export = query.address("/api/v1/messages/export")
            let replay = query.address("/replays/new")
            let tail: HTML =
                isFirst && query.until == nil
                ? """
                <button type="button" class="button needs-script" id="tail-toggle" aria-pressed="false"
                data-stream="\(query.address("/api/v1/messages/stream"))">Live tail</button>
                """ : ""
            return """
                \(tail)<a class="button" href="\(replay)">Replay these</a>
                <a class="button" href="\(export)" download>Export NDJSON</a>
                """
        }

        var form: HTML {
            """
            <form class="filter" action="/messages" method="get" role="search">
            \(field("category", "Category", query.categories.first, "com.example.orders"))
            \(field("message_id", "Message id", query.messageID, "exact id"))
            \(field("device", "Device key", query.device, "00000000-…"))
            \(field("sender", "Sender", query.sender, "1234567890"))
            \(field("since", "Received since", query.since, "2h, yesterday, 2026-01-31"))
            \(field("until", "Received before", query.until, "now"))
            \(field("where", "Where", query.clauses.first, "data.total>100", wide: true))
            \(HTML(query.categories.dropFirst()) { "<input type=\"hidden\" name=\"category\" value=\"\(exact: $0)\">" })
            \(HTML(query.clauses.dropFirst()) { "<input type=\"hidden\" name=\"where\" value=\"\(exact: $0)\">" })
            <div class="actions"><button class="primary">Search</button>\
            \(HTML.when(!query.isEmpty, "<a class=\"button ghost\" href=\"/messages\">Clear</a>"))</div></form>
            """
        }

        private func field(
            _ name: StaticString,
            _ label: String,
            _ value: String?,
            _ hint: String,
            wide: Bool = false
        ) -> HTML {
            let name = name.description
            let mistake = query.mistakes[name]
            let error: HTML =
                mistake.map { "<p class=\"field-error\" id=\"\(name)-error\">\(exact: $0)</p>" } ?? ""
            let described: HTML = mistake == nil ? "" : " aria-invalid=\"true\" aria-describedby=\"\(name)-error\""
            return """
                <div\(HTML.when(wide, " class=\"wide\""))><label for="f-\(name)">\(label)</label>
                <input id="f-\(name)" name="\(name)" value="\(exact: value ?? "")" placeholder="\(hint)" dir="auto" \
                autocomplete="off" spellcheck="false"\(described)>\(error)</div>
                """
        }

        private var columns: [Column] {
            [Column("Received"), Column("Category"), Column("Message id"), Column("Device"), Column("Sender")]
                + (showsPayloads ? [Column("Data")] : [])
        }

        func list(_ rows: [StoredMessage], isFirst: Bool) -> HTML {
            guard query.mistakes.isEmpty else {
                return Part.empty("The filter can't be read", "Correct the field that is marked.")
            }
            guard !rows.isEmpty else {
                let hint: HTML =
                    query.isEmpty
                    ? """
                    Nothing has been received yet. Start a worker (<code>upstream-worker run</code>), or try everything on this machine \
                    with <code>upstream-worker dev</code>.
                    """
                    : "Widen the filter, or <a href=\"/messages\">show all messages</a>."
                let title = query.isEmpty ? "No messages yet" : "No message matches"
                return "<div id=\"tail-empty\">\(Part.empty(title, hint))</div>\(isFirst ? table([]) : "")"
            }
            return table(rows)
        }

        private func table(_ rows: [StoredMessage]) -> HTML {
            Part.table("Messages", columns, rows.map(cells), id: "message-rows")
        }

        private func cells(_ row: StoredMessage) -> [HTML] {
            let message = row.message
            let key = message.messageKey.description
            let device = message.deviceKey.description
            var cells: [HTML] = [
                """
                \(Part.time(Timestamp(microseconds: message.receivedAtMicroseconds)))\
                <span class="sub">\(Part.age(Timestamp(microseconds: message.receivedAtMicroseconds), now: now))</span>
                """,
                "<span class=\"tag\">\(stranger: message.category)</span>",
                "<a class=\"mono\" href=\"\(PageAddress("/messages").adding(key))\">\(stranger: message.messageID.shortened(120))</a>",
                Part.key(device, PageAddress("/messages").query("device", device)),
                "<span class=\"mono tight\">\(stranger: message.senderID)</span>",
            ]
            if showsPayloads { cells.append(preview(message)) }
            return cells
        }

        private func preview(_ message: UpstreamMessage) -> HTML {
            let token = message.registrationToken.rawValue
            guard let data = message.data.map({ TokenMask.mask($0, of: token) }) else {
                return "<span class=\"muted\">none</span>"
            }
            let isCut = data.count > MessageListPage.previewLength
            let text = String(decoding: data.prefix(MessageListPage.previewLength), as: UTF8.self)
            return "<code class=\"clip\">\(stranger: isCut ? text + "…" : text)</code>"
        }
    }
}

extension String {
    /// The text, or its beginning with an ellipsis.
    func shortened(_ length: Int) -> String {
        unicodeScalars.count > length ? String(String.UnicodeScalarView(unicodeScalars.prefix(length))) + "…" : self
    }
}
