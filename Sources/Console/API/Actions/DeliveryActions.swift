import HTTPTypes
import Hummingbird
import MessageStore
import Postgres
import UpstreamKit
import Vocabulary

/// `POST deliveries/retry-now`: makes waiting deliveries due at once.
struct DeliveryActions: ConsoleRoutes {
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

    func add(to router: RouterGroup<ConsoleContext>) {
        router.post("deliveries/retry-now", use: retry)
    }

    @Sendable private func retry(_ request: Request, _ context: ConsoleContext) async throws -> Response {
        let request = try await ActionRequest(request, context, limit: services.settings.bodyLimit)
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
