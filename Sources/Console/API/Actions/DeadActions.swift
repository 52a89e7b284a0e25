import HTTPTypes
import Hummingbird
import MessageStore
import Postgres
import Resources
import Vocabulary

/// `POST dead/retry` and `dead/discard`: first with a filter, which freezes a set and shows it; then with the set's id, which
/// starts a job on exactly that set.
struct DeadActions: EndpointGroup {
    let services: ConsoleServices
    let bell: JobBell

    private struct Body: ActionBody {
        static let members = [
            BodyMember("id", #"{"type":"string","format":"uuid"}"#), .reason, BodyMember("all", #"{"type":"boolean"}"#),
            BodyMember("filter", BodyMember.fields(of: DeadLetterFilter.self)),
        ]
        /// The id of a frozen set.
        var id: String?
        /// The reason for the audit trail.
        var reason: String?
        /// Whether an empty filter may select everything.
        var all: Bool?
        var filter: FilterBody<DeadLetterFilter>?
    }

    var endpoints: [Endpoint] {
        [
            endpoint("retryDead", "dead/retry", "Freezes dead letters, or queues a frozen set again.", .retry),
            endpoint("discardDead", "dead/discard", "Freezes dead letters, or deletes a frozen set.", .discard),
        ]
    }

    private func endpoint(
        _ operation: StaticString,
        _ path: String,
        _ summary: StaticString,
        _ fate: DeadLetters.Fate
    ) -> Endpoint {
        let answers: [Endpoint.Answer] = [
            .one("Outcome", 200, "There is nothing to act on"), .one(Job.schema, 201, "The frozen set"),
            .one(Job.schema, 202, "The job that was started"),
        ]
        return .post(operation, path, summary, body: Body.self, answers: answers) { try await act(fate, $0) }
    }

    private func act(_ fate: DeadLetters.Fate, _ endpoint: EndpointRequest) async throws -> Response {
        let request = try await ActionRequest(endpoint, services.settings)
        let body = try request.decode(Body.self)
        guard let id = body.id else { return try await freeze(fate, body, request) }
        guard body.filter == nil, body.all == nil else {
            throw Problem.badRequest("give either 'filter', to see what it selects, or the 'id' of a set, to act on it")
        }
        guard let job = Digest128(uuid: id.utf8) else { throw Problem.badRequest("'id' is a UUID") }
        let author = try request.author(body.reason)
        let sight = services.settings.sight
        let response = try await IdempotentActions(services: services).perform(request) {
            connection throws(PostgresError) in
            try Jobs.start(connection, job, fate, by: author).map { job in
                ActionAnswer(
                    .accepted,
                    location: Self.location(job),
                    body: job.shown(to: sight).json() + [UInt8(ascii: "\n")]
                )
            }
        }
        bell.ring()
        return response
    }

    private func freeze(_ fate: DeadLetters.Fate, _ body: Body, _ request: ActionRequest) async throws -> Response {
        guard body.reason == nil else {
            throw Problem.badRequest("'reason' goes with the 'id' of the set, when it is acted on")
        }
        let sight = services.settings.sight
        let asked = try (body.filter ?? FilterBody()).asked(sight)
        guard body.all == true || !asked.isEmpty else {
            throw Problem.badRequest("give a filter, or \"all\": true to select every dead letter")
        }
        let (who, filter) = (request.principal.name, asked.filter)
        return try await IdempotentActions(services: services).perform(request, isLong: true) {
            connection throws(PostgresError) in
            try Jobs.freeze(connection, fate, filter, who: who).map { job in
                guard let job else {
                    return ActionAnswer {
                        $0.name("id")
                        $0.null()
                        $0.member("action", fate.action.rawValue)
                        $0.member("planned", 0)
                        $0.name("groups")
                        $0.beginArray()
                        $0.endArray()
                    }
                }
                let body = job.shown(to: sight).json() + [UInt8(ascii: "\n")]
                return ActionAnswer(.created, location: Self.location(job), body: body)
            }
        }
    }

    private static func location(_ job: Job) -> String { "/api/v1/jobs/\(job.id)" }
}
