import Querying
import Resources
import UpstreamKit

/// The messages: a filter, a page of rows and the live tail.
enum MessageListPage {
    static func page(_ request: PageRequest) async throws -> HTML {
        let list = try await PageList(request, Lists.messages)
        let tail: HTML = """
            <button type="button" class="button needs-script" id="tail-toggle" aria-pressed="false"
            data-stream="\(list.address("/api/v1/messages/stream"))">Live tail</button>
            """
        let actions: HTML = """
            \(HTML.when(list.isFirstPage && list.asked.values["until"] == nil, tail))\
            <a class="button" href="\(list.address("/replays/new"))">Replay these</a>
            <a class="button" href="\(list.address("/api/v1/messages/export"))" download>Export NDJSON</a>
            """
        let hint: HTML = """
            Nothing has been received yet. Start a worker (<code>upstream-worker run</code>), or try everything on this machine \
            with <code>upstream-worker dev</code>.
            """
        let columns = Self.columns(request.services.sight)
        var table = list.table("Messages", columns, "No messages yet", hint, id: "message-rows")
        if list.rows.isEmpty, list.asked.mistakes.isEmpty {
            // The live tail fills it.
            let empty = list.isFirstPage ? Part.table("Messages", [], now: list.now, columns, id: "message-rows") : ""
            table = "<div id=\"tail-empty\">\(table)</div>\(empty)"
        }
        return request.document(
            "Messages",
            .messages,
            """
            \(Part.head("Messages", "What devices sent, the newest first.", actions: actions))
            \(list.form)
            <section class="card">\(table)\(list.pager)</section>
            """
        )
    }

    private static func columns(_ sight: Sight) -> [PageColumn<StoredMessage>] {
        let plain = MessageColumn.inTables.filter { $0 != .messageKey && $0.traits.secrecy == .plain }
        let id = PageColumn<StoredMessage>("message_id") { row in
            let address = PageAddress("/messages").adding("\(row.message.messageKey)")
            return "<a class=\"mono\" href=\"\(address)\">\(stranger: row.message.messageID.shortened(120))</a>"
        }
        return (plain + [.senderID]).map { $0 == .messageID ? id : PageColumn($0.name) }
            + (sight.payloads ? [PageColumn("data", cell: preview)] : [])
    }

    /// The first bytes of the payload.
    private static func preview(_ row: StoredMessage) -> HTML {
        guard let data = row.shownData else { return "<span class=\"muted\">none</span>" }
        let text = String(decoding: data.prefix(160), as: UTF8.self)
        return "<code class=\"clip\">\(stranger: data.count > 160 ? text + "…" : text)</code>"
    }
}

extension String {
    /// The text, or its beginning with an ellipsis.
    func shortened(_ length: Int) -> String {
        unicodeScalars.count > length ? String(String.UnicodeScalarView(unicodeScalars.prefix(length))) + "…" : self
    }
}
