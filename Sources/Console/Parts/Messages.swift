import Foundation
import Hummingbird
import MessageStore
import Querying
import Resources
import ServiceLifecycle
import UpstreamKit

/// `GET messages`, `messages/{key}`, `messages/export` and `messages/stream`, and their pages: a filter, a page of rows
/// and the live tail; and one message with all that is known about it.
enum MessagePart {
    static let part = ConsolePart(
        section: Section("Messages", "/messages", "M4 5h16v12H9l-5 4zM8 9h8M8 13h5"),
        endpoints: endpoints,
        pages: [Page(path: "messages", make: page), Page(path: "messages/:reference", make: MessageDetailPage.page)]
    )

    private enum ListOrder: String, CaseIterable { case newest, oldest }

    private static let key = Parameter.uuid("key", "Its message_key; ?message_id= of the list finds it by id.")
    private static let limit = Parameter.limit(1_000)
    private static let after = Parameter.after(MessageCursor.init)
    private static let order: Parameter<ListOrder?> = .word("order", "The direction; `newest` without it.")
    private static let prefer = Parameter(
        "Prefer",
        in: .header,
        schema: #"{"type":"string","examples":["count=estimated"]}"#,
        "`count=estimated` adds the planner's estimate of all that match (RFC 7240)."
    ) { text in
        (text ?? "").split(separator: ",").contains { preference in
            preference.filter { $0 != " " && $0 != "\"" && $0 != "\t" }.lowercased() == "count=estimated"
        }
    }

    private static let endpoints: [Endpoint] = [
        .get("listMessages", "messages", list)
            .about("Messages, the latest first.", .one(named: "Messages", "A page", of: StoredMessage.self))
            .takes(MessageFilter.parameters + [limit, after, order, Parameter.reveal, prefer]),
        .get("streamMessages", "messages/stream", stream)
            .about(
                "Messages as they commit, as Server-Sent Events; `position` events have ids to go on from.",
                .stream("text/event-stream", "Events")
            )
            .takes(MessageFilter.parameters + [first, position, lastEvent]),
        .get("exportMessages", "messages/export", export)
            .about(
                "Any number of messages, the oldest first, one JSON object a line.",
                .stream("application/x-ndjson", "Lines")
            )
            .takes(MessageFilter.parameters + [lastLine]),
        .get("getMessage", "messages/{key}", message)
            .about("A message with its deliveries, dead letters and conflicts.", .one(MessageDetail.self))
            .takes([key, Parameter.reveal]),
    ]

    private static func message(_ request: EndpointRequest) async throws -> Response {
        let (key, sight, services) = (try request[key], try request.sight, request.services)
        let found = try await services.reader.withConnection { try await MessageLookup($0).detail(MessageKey(key)) }
        guard let found else {
            throw Problem.notFound("no message has this key: retention may have dropped it, or it was never stored")
        }
        if sight.tokens { try await request.recordReveal(of: 1, "message \(key)") }
        return .json(found.shown(to: sight, by: services.aliases).json())
    }

    /// A page takes a few MiB at most, whatever devices send: it then ends early, and `next` goes on behind it.
    private static func list(_ request: EndpointRequest) async throws -> Response {
        let asked = try request.filter(MessageFilter.self)
        let (limit, order, cursor) = (try request[limit], try request[order], try request[after])
        let (sight, wantsEstimate) = (try request.sight, try request[prefer])
        let (keys, filter, hasEstimate, json) = try await request.services.reader.withConnection(.search) {
            connection in
            let filter = try await asked.judged(connection)
            var pager = MessagePager(
                filter,
                order == .oldest ? .oldestFirst : .newestFirst,
                limit: limit,
                after: cursor
            )
            pager.byteLimit = AnswerBounds.page
            let estimate = wantsEstimate ? try await ScanEstimate.rows(filter, connection) : nil
            let page = try await pager.next(connection)
            let keys = sight.tokens ? (0..<page.count).compactMap { page[$0]?.cursor.messageKey.description } : []
            return (keys, filter, estimate != nil, Self.json(page, estimate, sight))
        }
        if sight.tokens { try await request.recordReveal(of: keys.count, "messages" + filter.auditText, keys) }
        return .json(json, headers: hasEstimate ? [.named("Preference-Applied"): "count=estimated"] : [:])
    }

    private static func json(_ page: MessagePage, _ estimate: Int64?, _ sight: Sight) -> [UInt8] {
        var lines = MessageLines(.ndjson, tokens: sight.tokens, payloads: sight.payloads)
        lines.append(text: #"{"items":["#)
        for row in 0..<page.count {
            if row > 0 { lines.append(text: ",") }
            lines.appendObject(of: page, row)
        }
        lines.append(text: #"],"next":"#)
        lines.append(text: (page.isFull ? page.end : nil).map { "\"\($0)\"" } ?? "null")
        if let estimate { lines.append(text: #","estimate":\#(estimate)"#) }
        lines.append(text: "}")
        return lines.take()
    }

    // MARK: Streams and exports

    private static let first = Parameter.integer("limit", 0...1_000, or: 10, "How many stored messages to begin with.")
    private static let position = Parameter.after(about: "The id of an event: goes on from there.", TailPosition.init)
    private static let lastEvent = Parameter(
        "Last-Event-ID",
        in: .header,
        "The same, as browsers send it; wins over `after`."
    ) { text throws(Problem) -> TailPosition? in
        guard let text, !text.isEmpty else { return nil }
        guard let position = TailPosition(text) else {
            throw .badRequest("'Last-Event-ID' takes the id of an event of this stream, unchanged")
        }
        return position
    }

    /// `GET messages/stream`: messages as they commit, as Server-Sent Events.
    private static func stream(_ request: EndpointRequest) async throws -> Response {
        let (chosen, limit, services) = (try request.filter(MessageFilter.self), try request[first], request.services)
        let after = try request[position]
        // What a browser sends by itself wins: it is later than what stands in the address.
        let position = try request[lastEvent] ?? after
        let filter = try await services.reader.withConnection { try await chosen.judged($0) }
        let (feed, place) = try services.feeds.subscribe(filter)
        try await feed.start()
        let body = ResponseBody { writer in
            let stream = MessageStream(
                services: services,
                feed: feed,
                place: place,
                filter: filter,
                position: position,
                limit: limit,
                out: StreamOutput(writer)
            )
            try await withGracefulShutdownHandler {
                try await stream.run()
            } onGracefulShutdown: {
                place.end()
            }
            try await stream.out.finish()
        }
        return .events(body)
    }

    private static let lastLine = Parameter.after(
        about: "Where the last line there is stands: its received_at, a slash and its message_key.",
        MessageCursor.init
    )

    private static let lines = LineExport<MessagePager, MessagePage>(name: "messages") { pager, connection in
        var pager = pager
        let page = try await pager.next(connection)
        return (page, page.isFull ? pager : nil)
    } lines: { page, sight in
        var lines = MessageLines(.ndjson, tokens: false, payloads: sight.payloads)
        for row in 0..<page.count { lines.append(page, row) }
        return lines.take()
    }

    /// `GET messages/export`: any number of messages as NDJSON, the oldest first.
    ///
    /// What has arrived is continued by `after`, with the `received_at` and the `message_key` of its last line.
    private static func export(_ request: EndpointRequest) async throws -> Response {
        let (chosen, cursor) = (try request.filter(MessageFilter.self), try request[lastLine])
        return try await lines.response(request.services) { connection in
            var filter = try await chosen.judged(connection)
            if filter.until == nil { filter.until = try await MessageExport.end(connection) }
            var pager = MessagePager(filter, .oldestFirst, limit: 2_000, after: cursor)
            pager.byteLimit = AnswerBounds.part
            return pager
        }
    }

    // MARK: The page

    /// The latest messages first: the API's list is made without a row in memory.
    private static let pageList = Listing<MessageFilter, StoredMessage, MessageCursor>(
        address: "/messages",
        most: 1_000
    ) { wanted in
        var pager = MessagePager(wanted.filter, .newestFirst, limit: wanted.limit, after: wanted.after)
        pager.byteLimit = AnswerBounds.page
        // Conditions on what no index holds: looked for a piece of time after the other, so that what is found is shown.
        let isSlow = !wanted.filter.clauses.isEmpty || wanted.filter.senderID != nil
        var search = isSlow ? try await MessageSearch(pager, wanted.connection) : nil
        if search != nil {
            let found = try await search?.run(wanted.connection)
            let rows = (found?.messages ?? []).map { $0.shown(to: wanted.sight) }
            return .init(rows: rows, next: found?.next?.description, searchedTo: found?.searchedTo)
        }
        let page = try await pager.next(wanted.connection)
        let rows = try page.messages.map { $0.shown(to: wanted.sight) }
        return .init(rows: rows, next: page.isFull ? rows.last?.cursor.description : nil)
    }

    /// How far back `where` looks by itself.
    private static let reach = "24h"

    /// What the address holds; conditions on payloads alone look at the last 24 h.
    private static func values(_ request: PageRequest) -> (values: [String: [String]], isReduced: Bool) {
        var values = request.query.values
        let isReduced = values["where"] != nil && values["since"] == nil && values["until"] == nil
        if isReduced { values["since"] = [reach] }
        return (values, isReduced)
    }

    private static func page(_ request: PageRequest) async throws -> HTML {
        let (values, isReduced) = values(request)
        let (list, senders) = try await PageList.read(request, pageList, values) { connection, _ in
            try await StoredSender.list(connection).count
        }
        let keys = list.rows.map(\.message.messageKey)
        let pending = try await keys.isEmpty ? [:] : request.read { try await MessageLookup($0).pending(keys) }
        let tail: HTML = """
            <button type="button" class="button needs-script" id="tail-toggle" aria-pressed="false"
            data-stream="\(list.address("/api/v1/messages/stream"))">Live tail</button>
            """
        let device = request.mayAct && !list.rows.isEmpty ? list.asked.filter.deviceKey : nil
        let actions: HTML = """
            \(device.map(MaintenancePart.forgetDialog))\(HTML.when(list.isFirstPage && list.asked.values["until"] == nil, tail))\
            <a class="button" href="\(list.address("/replays/new"))">Replay these</a>
            <a class="button" href="\(list.address("/api/v1/messages/export"))" download>Export NDJSON</a>
            """
        let hint: HTML = """
            Nothing has been received yet. Start a worker (<code>upstream-worker run</code>), or try everything on this machine \
            with <code>upstream-worker dev</code>.
            """
        let columns = Self.columns(request.sight, hasSenders: senders > 1, pending)
        var table = list.table("Messages", columns, "No messages yet", hint, id: "message-rows")
        if list.rows.isEmpty, list.asked.mistakes.isEmpty {
            // The live tail fills it.
            let empty = list.isFirstPage ? Part.table("Messages", [], now: list.now, columns, id: "message-rows") : ""
            table = "<div id=\"tail-empty\">\(table)</div>\(empty)"
        }
        if isReduced, list.next == nil, list.asked.mistakes.isEmpty {
            var all = request.query.values
            all["since"] = ["1970-01-01"]
            let address = MessageFilter.filters.reduce(list.base) { $0.query($1.name, all[$1.name.description] ?? []) }
            let note: HTML = "Conditions on data looked at the last 24 h only. <a href=\"\(address)\">Look at all</a>."
            table = "\(table)<div class=\"body\">\(Part.notice(.active, note))</div>"
        }
        return list.document(
            request,
            "Messages",
            "What devices sent, the newest first.",
            actions: actions,
            find: list.asked.terms,
            "<div class=\"dense lines\">\(table)</div>"
        )
    }

    /// One line a row; a column that is the same everywhere is left out, and data has what the others leave.
    private static func columns(
        _ sight: Sight,
        hasSenders: Bool,
        _ pending: [MessageKey: (waiting: Int, dead: Int)]
    ) -> [PageColumn<StoredMessage>] {
        let plain = MessageColumn.inTables.filter { $0 != .messageKey && $0.traits.secrecy == .plain }
        let id = PageColumn<StoredMessage>("message_id") { row in
            let address = PageAddress("/messages").adding("\(row.message.messageKey)")
            return Part.link(address, row.message.messageID.shortened(120))
        }
        let received = PageColumn<StoredMessage>("received_at") { Part.time($0.cursor.receivedAt) }
        // Empty in a row that the live tail adds, of which nothing is known.
        let state = PageColumn<StoredMessage>(title: "Pending") { row in
            guard let (waiting, dead) = pending[row.message.messageKey] else { return "<span class=\"muted\">–</span>" }
            return HTML([(Tone.active, "waiting", waiting), (.bad, "dead", dead)].filter { $0.2 > 0 }) {
                "\(Part.badge($0.0, "\($0.1) \($0.2)")) "
            }
        }
        return (plain + (hasSenders ? [.senderID] : [])).map { column in
            switch column {
            case .receivedAt: received
            case .messageID: id
            default: PageColumn(column.name)
            }
        }
            + (pending.isEmpty ? [] : [state]) + (sight.payloads ? [PageColumn("data", cell: preview)] : [])
    }

    /// The first bytes of the payload.
    private static func preview(_ row: StoredMessage) -> HTML {
        guard let data = row.shownData else { return "<span class=\"muted\">none</span>" }
        let text = String(decoding: data.prefix(160), as: UTF8.self)
        return "<code class=\"clip\">\(stranger: data.count > 160 ? text + "…" : text)</code>"
    }
}

extension MessageDetail {
    /// The message's tokens: its device's, and the one that a receipt holds.
    var tokens: [String] {
        guard let message = stored?.message else { return [] }
        let data = message.data.flatMap { try? JSONSerialization.jsonObject(with: Data($0)) } as? [String: Any]
        return [message.registrationToken.rawValue, data?[TokenMask.member] as? String]
            .compactMap(\.self)
    }

    /// Everything about the message as a reader may see it, with its conflicts' names.
    func shown(to sight: Sight, by aliases: Aliases) -> MessageDetail {
        var detail = shown(to: sight, knowing: tokens)
        detail.conflicts = detail.conflicts.map { aliases.named($0) }
        return detail
    }
}

extension String {
    /// The text, or its beginning with an ellipsis.
    func shortened(_ length: Int) -> String {
        unicodeScalars.count > length ? String(String.UnicodeScalarView(unicodeScalars.prefix(length))) + "…" : self
    }
}
