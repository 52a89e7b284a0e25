import Hummingbird
import MessageStore
import Postgres
import Resources
import Vocabulary

/// `POST deliveries/retry-now`: makes deliveries due at once that wait for their next attempt.
struct DeliveryActions: EndpointGroup {
    let services: ConsoleServices

    /// The most deliveries per request, which is one transaction.
    private static let most = BulkAction.Act.waiting(.retryNow, WaitingFilter()).batch

    private struct Body: ActionBody {
        static let members =
            BodyMember.fields(of: WaitingFilter.self) + [
                BodyMember("all", #"{"type":"boolean"}"#),
                BodyMember("limit", #"{"type":"integer","minimum":1,"maximum":\#(most)}"#), .reason,
            ]
        let filter: FilterBody<WaitingFilter>
        let all: Bool?
        let limit: Int?
        let reason: String?

        init(from decoder: any Decoder) throws {
            let members = try decoder.container(keyedBy: AnyKey.self)
            filter = try FilterBody(from: decoder)
            all = try members.decodeIfPresent(Bool.self, forKey: AnyKey("all"))
            limit = try members.decodeIfPresent(Int.self, forKey: AnyKey("limit"))
            reason = try members.decodeIfPresent(String.self, forKey: AnyKey("reason"))
        }
    }

    var endpoints: [Endpoint] {
        [
            .post(
                "retryDeliveriesNow",
                "deliveries/retry-now",
                "Makes waiting deliveries due at once.",
                body: Body.self,
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
        let asked = try body.filter.asked(services.settings.sight)
        guard body.all == true || !asked.isEmpty else {
            throw Problem.badRequest("give a handler, a message_key, another filter, or \"all\": true")
        }
        let filter = asked.filter
        return try await IdempotentActions(services: services).perform(request) {
            connection throws(PostgresError) in
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
