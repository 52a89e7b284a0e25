import Hummingbird
import Postgres
import Querying
import Resources
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
        let payloads = services.settings.showsPayloads
        let list = try PageList<MessageFilter, MessageCursor>(
            request,
            at: "/messages",
            sight: services.settings.sight,
            MessageCursor.init
        )
        let (rows, isFull, now) = try await services.reader.withConnection(.search) { connection in
            let now = try await connection.databaseTime()
            guard list.asked.mistakes.isEmpty else { return ([StoredMessage](), false, now) }
            let filter = try list.asked.judged(now: now)
            var pager = MessagePager(filter, .newestFirst, limit: Self.pageSize, after: list.cursor)
            (pager.byteLimit, pager.countsVerbatim) = (AnswerBounds.page, true)
            let page = try await pager.next(connection)
            return (try page.messages, page.isFull, now)
        }
        let view = View(list: list, now: now, showsPayloads: payloads)
        return PageShell("Messages", .messages, for: request).document(
            """
            \(Part.head("Messages", "What devices sent, the newest first.", actions: view.actions))
            <section class="card">\(list.form)</section>
            <section class="card">\(view.table(rows))\(list.pager(next: isFull ? rows.last?.cursor : nil))</section>
            """
        )
    }

    private struct View {
        var list: PageList<MessageFilter, MessageCursor>
        var now: Timestamp
        var showsPayloads: Bool

        private var isFirst: Bool { list.cursor == nil }

        var actions: HTML {
            let tail: HTML =
                isFirst && list.asked.values["until"] == nil
                ? """
                <button type="button" class="button needs-script" id="tail-toggle" aria-pressed="false"
                data-stream="\(list.address("/api/v1/messages/stream"))">Live tail</button>
                """ : ""
            return """
                \(tail)<a class="button" href="\(list.address("/replays/new"))">Replay these</a>
                <a class="button" href="\(list.address("/api/v1/messages/export"))" download>Export NDJSON</a>
                """
        }

        private var columns: [Column] {
            [Column("Received"), Column("Category"), Column("Message id"), Column("Device"), Column("Sender")]
                + (showsPayloads ? [Column("Data")] : [])
        }

        func table(_ rows: [StoredMessage]) -> HTML {
            if let unreadable = list.unreadable { return unreadable }
            let table = Part.table("Messages", columns, rows.map(cells), id: "message-rows")
            guard rows.isEmpty else { return table }
            let hint: HTML =
                list.isEmpty
                ? """
                Nothing has been received yet. Start a worker (<code>upstream-worker run</code>), or try everything on this machine \
                with <code>upstream-worker dev</code>.
                """
                : "Widen the filter, or <a href=\"/messages\">show all messages</a>."
            let title = list.isEmpty ? "No messages yet" : "No message matches"
            return "<div id=\"tail-empty\">\(Part.empty(title, hint))</div>\(isFirst ? table : "")"
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
