import HTTPTypes
import Hummingbird
import NIOCore
import Postgres
import Querying
import ServiceLifecycle
import UpstreamKit
import Vocabulary

extension MessageRoutes {
    private static let lastEventID = HTTPField.Name("Last-Event-ID")

    /// `GET messages/stream`: messages as they commit, as Server-Sent Events.
    func stream(_ request: Request, _ context: ConsoleContext) async throws -> Response {
        let principal = try context.require(.read)
        let names = QueryParameters.Names(
            single: FilterParameters.single + ["limit", "after"],
            repeatable: FilterParameters.repeatable
        )
        let parameters = try QueryParameters(request, names)
        let chosen = try FilterParameters(parameters, showsPayloads: services.settings.showsPayloads, principal)
        let limit = try parameters.integer("limit", in: 0...1_000, or: 10)
        var position = try parameters.cursor(TailPosition.init)
        // Browsers send it when they reconnect: it is newer than the address.
        if let text = Self.lastEventID.flatMap({ request.headers[$0] }), !text.isEmpty {
            guard let last = TailPosition(text) else {
                throw Problem.badRequest("'Last-Event-ID' takes the id of an event of this stream, unchanged")
            }
            position = last
        }
        let filter = try await services.reader.withConnection { try await chosen.judged($0) }
        let (feed, place) = try feeds.subscribe(filter)
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
        return Response(status: .ok, headers: [.contentType: "text/event-stream"], body: body)
    }
}
