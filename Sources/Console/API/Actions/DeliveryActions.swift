import HTTPTypes
import Hummingbird
import MessageStore
import Postgres
import UpstreamKit
import Vocabulary

/// `POST deliveries/retry-now`: makes deliveries due at once that wait for their next attempt.
struct DeliveryActions: EndpointGroup {
    let services: ConsoleServices

    /// The most deliveries per request, which is one transaction.
    private static let most = BulkAction.Act.waiting(.retryNow, WaitingFilter()).batch

    private struct Body: ActionBody {
        static let members: Set = ["handler", "message_key", "category", "all", "limit", "reason"]
        var handler: String?
        var messageKey: String?
        var category: String?
        var all: Bool?
        var limit: Int?
        var reason: String?

        enum CodingKeys: String, CodingKey {
            case handler
            case messageKey = "message_key"
            case category
            case all
            case limit
            case reason
        }
    }

    var endpoints: [Endpoint] {
        [
            .post(
                "retryDeliveriesNow",
                "deliveries/retry-now",
                "Makes waiting deliveries due at once.",
                body: "RetryNow",
                retry
            )
        ]
    }

    private func retry(_ endpoint: EndpointRequest) async throws -> Response {
        let request = try await ActionRequest(endpoint, services.settings)
        let body = try request.decode(Body.self)
        let author = try request.author(body.reason)
        let limit = body.limit ?? Self.most
        guard (1...Self.most).contains(limit) else { throw Problem.badRequest("'limit' is 1 to 10,000") }
        var filter = WaitingFilter()
        filter.handler = body.handler
        filter.messageKey = try body.messageKey.map { text throws(Problem) in try .parsed(text) }
        filter.category = body.category
        guard body.all == true || filter != WaitingFilter() else {
            throw Problem.badRequest("give a handler, a message_key or a category, or \"all\": true")
        }
        return try await IdempotentActions(services: services).perform(request) {
            [filter] connection throws(PostgresError) in
            let count = try BulkAction(.waiting(.retryNow, filter), total: limit, by: author).begin(connection)
            return .success(
                ActionAnswer {
                    $0.member("done", count)
                    // The limit was reached: there may be more.
                    $0.name("more")
                    $0.bool(count == limit)
                }
            )
        }
    }
}
