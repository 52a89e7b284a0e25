import Hummingbird
import MessageStore
import Postgres
import Resources
import Vocabulary

/// `POST dead/retry` and `dead/discard`: first with a filter, which freezes a set and shows it; then with the set's id,
/// which starts a job on exactly that set.
enum DeadActions {
    private static let id = Member<String>("id", #"{"type":"string","format":"uuid"}"#)
    private static let filter = FilterMember<DeadLetterFilter>()

    static let endpoints = [
        endpoint("retryDead", "dead/retry", "Freezes dead letters, or queues a frozen set again.", .retry),
        endpoint("discardDead", "dead/discard", "Freezes dead letters, or deletes a frozen set.", .discard),
    ]

    private static func endpoint(
        _ operation: StaticString,
        _ path: String,
        _ summary: StaticString,
        _ fate: DeadLetters.Fate
    ) -> Endpoint {
        let answers: [Endpoint.Answer] = [
            .one("Outcome", 200, "There is nothing to act on"), .one(Job.schema, 201, "The frozen set"),
            .one(Job.schema, 202, "The job that was started"),
        ]
        return .action(operation, path, summary, body: [id, ActionBody.all, filter], answers: answers) { request in
            guard let id = request.body[id] else { return try await freeze(fate, request) }
            return try await start(fate, id, request)
        }
    }

    private static func start(
        _ fate: DeadLetters.Fate,
        _ id: String,
        _ request: ActionRequest
    ) async throws -> Response {
        guard request.body[filter] == nil, request.body[ActionBody.all] == nil else {
            throw Problem.badRequest("give either 'filter', to see what it selects, or the 'id' of a set, to act on it")
        }
        guard let job = Digest128(uuid: id.utf8) else { throw Problem.badRequest("'id' is a UUID") }
        let (author, sight) = (request.author, request.services.sight)
        let response = try await request.perform { connection throws(PostgresError) in
            try Jobs.start(connection, job, fate, by: author).map { $0.answer(.accepted, to: sight) }
        }
        request.services.bell.ring()
        return response
    }

    private static func freeze(_ fate: DeadLetters.Fate, _ request: ActionRequest) async throws -> Response {
        guard request.body[ActionBody.reason] == nil else {
            throw Problem.badRequest("'reason' goes with the 'id' of the set, when it is acted on")
        }
        let sight = request.services.sight
        let asked = try (request.body[filter] ?? ActionBody()).asked(DeadLetterFilter.self, sight)
        guard request.body[ActionBody.all] == true || !asked.isEmpty else {
            throw Problem.badRequest("give a filter, or \"all\": true to select every dead letter")
        }
        let (who, filter) = (request.principal.name, asked.filter)
        return try await request.perform(isLong: true) { connection throws(PostgresError) in
            try Jobs.freeze(connection, fate, filter, who: who).map { job in
                job?.answer(.created, to: sight)
                    ?? ActionAnswer {
                        $0.member("id", nil)
                        $0.member("action", fate.action.rawValue)
                        $0.member("planned", 0)
                        $0.member("groups", of: [String]())
                    }
            }
        }
    }
}
