import HTTPTypes
import Hummingbird
import Querying
import Resources
import UpstreamKit

/// `GET messages`, `messages/{key}`, `messages/export` and `messages/stream`.
struct MessageRoutes: EndpointGroup {
    /// The order of a list's pages.
    enum ListOrder: String, CaseIterable {
        case newest
        case oldest
    }

    private static let key = Parameter.uuid("key", "Its message_key; ?message_id= of the list finds it by id.") {
        MessageKey($0)
    }
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
    private static let preferenceApplied = HTTPField.Name("Preference-Applied") ?? .vary

    let services: ConsoleServices
    let feeds: MessageFeeds
    let exports = StreamPlaces(32, "exports", instead: "wait until one has ended")

    init(_ services: ConsoleServices) {
        self.services = services
        feeds = MessageFeeds(services)
    }

    var endpoints: [Endpoint] {
        [
            .get(
                "listMessages",
                "messages",
                "Messages, the latest first.",
                MessageFilter.parameters + [Self.limit, Self.after, Self.order, Parameter.reveal, Self.prefer],
                .one("Messages", 200, "A page"),
                list
            ),
            .get(
                "streamMessages",
                "messages/stream",
                "Messages as they commit, as Server-Sent Events; `position` events have ids to go on from.",
                MessageFilter.parameters + [Self.first, Self.position, Self.lastEvent],
                .stream("text/event-stream", "Events"),
                stream
            ),
            .get(
                "exportMessages",
                "messages/export",
                "Any number of messages, the oldest first, one JSON object a line.",
                MessageFilter.parameters + [Self.lastLine],
                .stream("application/x-ndjson", "Lines"),
                export
            ),
            .get(
                "getMessage",
                "messages/{key}",
                "A message with its deliveries, dead letters and conflicts.",
                [Self.key, Parameter.reveal],
                .one("MessageDetail"),
                detail
            ),
        ]
    }

    /// What a request selects.
    func filter(_ request: EndpointRequest) throws(Problem) -> Asked<MessageFilter> {
        try request.filter(MessageFilter.self, showsPayloads: services.settings.showsPayloads)
    }

    /// A page takes a few MiB at most, whatever devices send: it then ends early, and `next` goes on behind it.
    private func list(_ request: EndpointRequest) async throws -> Response {
        let asked = try filter(request)
        let (limit, order, cursor) = (try request[Self.limit], try request[Self.order], try request[Self.after])
        let (tokens, payloads) = (try request[.reveal] != nil, services.settings.showsPayloads)
        let wantsEstimate = try request[Self.prefer]
        let (keys, filter, hasEstimate, json) = try await services.reader.withConnection(.search) { connection in
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
            let keys = tokens ? (0..<page.count).compactMap { page[$0]?.cursor.messageKey.description } : []
            return (keys, filter, estimate != nil, Self.json(page, estimate, tokens: tokens, payloads: payloads))
        }
        if tokens {
            try await Revealing.record(
                keys.count,
                "messages" + filter.auditText,
                keys,
                services,
                request.principal
            )
        }
        return JSONAnswer.of(json, headers: hasEstimate ? [Self.preferenceApplied: "count=estimated"] : [:])
    }

    private static func json(_ page: MessagePage, _ estimate: Int64?, tokens: Bool, payloads: Bool) -> [UInt8] {
        var lines = MessageLines(.ndjson, tokens: tokens, payloads: payloads)
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

    private func detail(_ request: EndpointRequest) async throws -> Response {
        let (key, reveals) = (try request[Self.key], try request[.reveal] != nil)
        let found = try await services.reader.withConnection { try await MessageLookup($0).detail(key) }
        guard let found else {
            throw Problem.notFound("no message has this key: retention may have dropped it, or it was never stored")
        }
        if reveals { try await Revealing.record(1, "message \(key)", [], services, request.principal) }
        let sight = Sight(tokens: reveals, payloads: services.settings.showsPayloads)
        return JSONAnswer.of(found.shown(to: sight, by: services.aliases).json())
    }
}
