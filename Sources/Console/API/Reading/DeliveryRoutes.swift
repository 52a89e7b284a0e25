import MessageStore
import Resources

/// `GET dead`, `dead/groups` and `deliveries`: what waits for handlers, and what was given up.
enum DeliveryRoutes {
    private static let handler = Parameter("handler", "Only of this handler.") { $0 }

    static let endpoints: [Endpoint] = [
        .list("listDeadLetters", Lists.dead, "Dead letters, the latest first."),
        .get(
            "listDeadGroups",
            "dead/groups",
            "Dead letters by handler and error group.",
            .page(of: DeadLetterGroup.schema),
            [handler]
        ) { request in
            let handler = try request[handler]
            let groups = try await request.services.reader.withConnection { connection in
                // There may be some hundred groups: the count of each stops early.
                try await DeadLetters(connection).summary(handler: handler, groups: 500, counted: 2_000)
            }
            return .page(groups.map { $0.shown(to: request.services.sight) })
        },
        .list("listDeliveries", Lists.deliveries, "Deliveries that wait, with why and when next."),
    ]
}
