import Hummingbird
import MessageStore
import Querying
import Resources

/// `GET dead`, `dead/groups` and `deliveries`: what waits for handlers, and what was given up.
struct DeliveryRoutes: EndpointGroup {
    /// Where the count of each group stops: there may be some hundred groups.
    static let groupLimit = 2_000

    private static let limit = Parameter.limit(200)
    private static let handler = Parameter("handler", "Only of this handler.") { $0 }
    private static let afterLetter = Parameter.after(DeadLetterCursor.init)
    private static let afterDelivery = Parameter.after(WaitingCursor.init)

    let services: ConsoleServices

    var endpoints: [Endpoint] {
        [
            .get(
                "listDeadLetters",
                "dead",
                "Dead letters, the latest first.",
                DeadLetterFilter.parameters + [Self.limit, Self.afterLetter],
                .page(of: DeadLetter.schema),
                dead
            ),
            .get(
                "listDeadGroups",
                "dead/groups",
                "Dead letters by handler and error group.",
                [Self.handler],
                .page(of: DeadLetterGroup.schema),
                groups
            ),
            .get(
                "listDeliveries",
                "deliveries",
                "Deliveries that wait, with why and when next.",
                WaitingFilter.parameters + [Self.limit, Self.afterDelivery],
                .page(of: WaitingDelivery.schema),
                deliveries
            ),
        ]
    }

    private func dead(_ request: EndpointRequest) async throws -> Response {
        let sight = services.settings.sight
        let asked = try request.filter(DeadLetterFilter.self, showsPayloads: sight.payloads)
        let (limit, cursor) = (try request[Self.limit], try request[Self.afterLetter])
        let letters = try await services.reader.withConnection(.search) { connection in
            try await DeadLetters(connection).list(asked.judged(connection), after: cursor, limit: limit)
                .shown(to: sight, connection)
        }
        return JSONAnswer.page(letters, next: letters.count < limit ? nil : letters.last?.cursor.description)
    }

    private func groups(_ request: EndpointRequest) async throws -> Response {
        let handler = try request[Self.handler]
        let groups = try await services.reader.withConnection { connection in
            try await DeadLetters(connection).summary(handler: handler, groups: 500, counted: Self.groupLimit)
        }
        return JSONAnswer.page(groups.map { $0.shown(to: services.settings.sight) })
    }

    private func deliveries(_ request: EndpointRequest) async throws -> Response {
        let sight = services.settings.sight
        let asked = try request.filter(WaitingFilter.self, showsPayloads: sight.payloads)
        let (limit, cursor) = (try request[Self.limit], try request[Self.afterDelivery])
        let rows = try await services.reader.withConnection(.search) { connection in
            try await WaitingDeliveries(connection).list(asked.judged(connection), after: cursor, limit: limit)
                .shown(to: sight, connection)
        }
        return JSONAnswer.page(rows, next: rows.count < limit ? nil : rows.last?.cursor.description)
    }
}
