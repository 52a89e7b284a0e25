import Hummingbird
import Querying
import Resources
import ServiceLifecycle

extension MessageRoutes {
    static let first = Parameter.integer("limit", 0...1_000, or: 10, "How many stored messages to begin with.")
    static let position = Parameter.after(about: "The id of an event: goes on from there.", TailPosition.init)
    static let lastEvent = Parameter(
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
    static func stream(_ request: EndpointRequest) async throws -> Response {
        let (chosen, limit, services) = (try request.filter(MessageFilter.self), try request[first], request.services)
        let after = try request[position]
        // What a browser sends by itself wins: it is later than what stands in the address.
        let position = try request[lastEvent] ?? after
        let filter = try await services.reader.withConnection { try await chosen.judged($0) }
        let (feed, place) = try services.feeds.subscribe(filter)
        try await feed.start()
        let stream = MessageStream(
            services: services,
            feed: feed,
            place: place,
            filter: filter,
            position: position,
            limit: limit
        )
        let body = ResponseBody { writer in
            let out = StreamOutput(writer)
            try await withGracefulShutdownHandler {
                try await stream.run(out)
            } onGracefulShutdown: {
                stream.place.end()
            }
            try await out.finish()
        }
        return .events(body)
    }
}
