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
            return (try page.messages.map { $0.shown(to: services.settings.sight) }, page.isFull, now)
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

        private var columns: [PageColumn<StoredMessage>] {
            let plain = MessageColumn.inTables.filter { $0 != .messageKey && $0.traits.secrecy == .plain }
            return (plain + [.senderID]).map { $0 == .messageID ? id : PageColumn($0.name) }
                + (showsPayloads ? [PageColumn("data", cell: preview)] : [])
        }

        private var id: PageColumn<StoredMessage> {
            PageColumn("message_id") { row in
                let address = PageAddress("/messages").adding("\(row.message.messageKey)")
                return "<a class=\"mono\" href=\"\(address)\">\(stranger: row.message.messageID.shortened(120))</a>"
            }
        }

        func table(_ rows: [StoredMessage]) -> HTML {
            if let unreadable = list.unreadable { return unreadable }
            let table = Part.table("Messages", rows, now: now, columns, id: "message-rows")
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

        private func preview(_ row: StoredMessage) -> HTML {
            guard let data = row.shownData else { return "<span class=\"muted\">none</span>" }
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
