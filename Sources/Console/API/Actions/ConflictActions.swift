import HTTPTypes
import Hummingbird
import MessageStore
import Postgres
import UpstreamKit
import Vocabulary

/// `POST conflicts/{message_key}/{fingerprint}/release`: hands a conflict's content to the handlers of its category.
struct ConflictActions: EndpointGroup {
    let services: ConsoleServices

    private static let key = Parameter.uuid("key", "The message_key.") { Digest128(uuid: $0.utf8) }
    private static let fingerprint = Parameter.uuid("fingerprint", "Which content.") { Digest128(uuid: $0.utf8) }

    var endpoints: [Endpoint] {
        [
            .post(
                "releaseConflict",
                "conflicts/{key}/{fingerprint}/release",
                "Hands a conflict's content to the handlers of its category.",
                [Self.key, Self.fingerprint],
                release
            )
        ]
    }

    private func release(_ endpoint: EndpointRequest) async throws -> Response {
        let request = try await ActionRequest(endpoint, services.settings)
        let (key, name) = (try endpoint[Self.key], try endpoint[Self.fingerprint])
        let fingerprint = services.aliases.fingerprint(of: name)
        let author = try request.author(try request.decode(ReasonBody.self).reason)
        return try await IdempotentActions(services: services).perform(request) { connection throws(PostgresError) in
            let outcome = try ConflictRelease.release(connection, MessageKey(key), fingerprint: fingerprint, by: author)
            switch outcome {
            case .unknown: return .failure(.notFound("there is no such conflict: GET conflicts lists them"))
            case .noHandler:
                return .failure(
                    Problem(
                        .conflict,
                        "no-handler",
                        "No handler",
                        "nothing was done: no handler is subscribed to its category"
                    )
                )
            case .released(let handlers): return .success(Self.answer(key, name, handlers, nil))
            case .releasedBefore(let time): return .success(Self.answer(key, name, [], time))
            }
        }
    }

    private static func answer(
        _ key: Digest128,
        _ fingerprint: Digest128,
        _ handlers: [String],
        _ before: Timestamp?
    ) -> ActionAnswer {
        ActionAnswer {
            $0.member("message_key", key)
            $0.member("fingerprint", fingerprint)
            $0.member("outcome", before == nil ? "released" : "released_before")
            $0.member("released_before_at", of: before)
            $0.member("handlers", of: handlers)
        }
    }
}
