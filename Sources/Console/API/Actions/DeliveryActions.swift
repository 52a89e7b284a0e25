import Hummingbird
import MessageStore
import Postgres
import Resources
import Vocabulary

/// `POST deliveries/retry-now`: makes deliveries due at once that wait for their next attempt.
enum DeliveryActions {
    /// The most deliveries per request, which is one transaction.
    private static let most = BulkAction.Act.waiting(.retryNow, WaitingFilter()).batch
    private static let limit = Member<Int>("limit", #"{"type":"integer","minimum":1,"maximum":\#(most)}"#)

    static let endpoints: [Endpoint] = [
        .action(
            "retryDeliveriesNow",
            "deliveries/retry-now",
            "Makes waiting deliveries due at once.",
            body: WaitingFilter.members + [ActionBody.all, limit],
            retry
        )
    ]

    private static func retry(_ request: ActionRequest) async throws -> Response {
        let limit = request.body[limit] ?? most
        guard (1...most).contains(limit) else { throw Problem.badRequest("'limit' is 1 to 10,000") }
        let asked = try request.body.asked(WaitingFilter.self, request.services.sight)
        guard request.body[ActionBody.all] == true || !asked.isEmpty else {
            throw Problem.badRequest("give a handler, a message_key, another filter, or \"all\": true")
        }
        let (filter, author) = (asked.filter, request.author)
        return try await request.perform { connection throws(PostgresError) in
            let count = try BulkAction(.waiting(.retryNow, filter), total: limit, by: author).begin(connection)
            return .success(
                ActionAnswer {
                    $0.member("done", count)
                    // The limit was reached: there may be more.
                    $0.member("more", of: count == limit)
                }
            )
        }
    }
}
