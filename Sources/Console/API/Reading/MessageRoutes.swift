import HTTPTypes
import Hummingbird
import Querying
import Resources
import UpstreamKit

/// `GET messages`, `messages/{key}`, `messages/export` and `messages/stream`.
enum MessageRoutes {
    /// The order of a list's pages.
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

    static let endpoints: [Endpoint] = [
        .get(
            "listMessages",
            "messages",
            "Messages, the latest first.",
            .one("Messages", 200, "A page"),
            MessageFilter.parameters + [limit, after, order, Parameter.reveal, prefer],
            list
        ),
        .get(
            "streamMessages",
            "messages/stream",
            "Messages as they commit, as Server-Sent Events; `position` events have ids to go on from.",
            .stream("text/event-stream", "Events"),
            MessageFilter.parameters + [first, position, lastEvent],
            stream
        ),
        .get(
            "exportMessages",
            "messages/export",
            "Any number of messages, the oldest first, one JSON object a line.",
            .stream("application/x-ndjson", "Lines"),
            MessageFilter.parameters + [lastLine],
            export
        ),
        .get(
            "getMessage",
            "messages/{key}",
            "A message with its deliveries, dead letters and conflicts.",
            .one("MessageDetail"),
            [key, Parameter.reveal]
        ) { request in
            let (key, sight, services) = (try request[key], try request.sight, request.services)
            let found = try await services.reader.withConnection { try await MessageLookup($0).detail(MessageKey(key)) }
            guard let found else {
                throw Problem.notFound("no message has this key: retention may have dropped it, or it was never stored")
            }
            if sight.tokens { try await request.recordReveal(of: 1, "message \(key)") }
            return .json(found.shown(to: sight, by: services.aliases).json())
        },
    ]

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
            (pager.byteLimit, pager.countsVerbatim) = (AnswerBounds.page, true)
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
}
