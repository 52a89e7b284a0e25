import Hummingbird
import MessageStore
import Postgres
import UpstreamKit
import Vocabulary

/// `POST conflicts/{message_key}/{fingerprint}/release`.
enum ConflictActions {
    private static let key = Parameter.uuid("key", "The message_key.")
    private static let fingerprint = Parameter.uuid("fingerprint", "Which content.")

    static let endpoints: [Endpoint] = [
        .action(
            "releaseConflict",
            "conflicts/{key}/{fingerprint}/release",
            "Hands a conflict's content to the handlers of its category.",
            [key, fingerprint],
            release
        )
    ]

    private static func release(_ request: ActionRequest) async throws -> Response {
        let (key, name, author) = (try request[key], try request[fingerprint], request.author)
        let fingerprint = request.services.aliases.fingerprint(of: name)
        return try await request.perform { connection throws(PostgresError) in
            let outcome = try ConflictRelease.release(connection, MessageKey(key), fingerprint: fingerprint, by: author)
            let (handlers, before): ([String], Timestamp?)
            switch outcome {
            case .unknown: return .failure(.notFound("there is no such conflict: GET conflicts lists them"))
            case .noHandler:
                return .failure(Problem(.noHandler, "nothing was done: no handler is subscribed to its category"))
            case .released(let names): (handlers, before) = (names, nil)
            case .releasedBefore(let time): (handlers, before) = ([], time)
            }
            return .success(
                ActionAnswer {
                    $0.member("message_key", key)
                    $0.member("fingerprint", name)
                    $0.member("outcome", before == nil ? "released" : "released_before")
                    $0.member("released_before_at", of: before)
                    $0.member("handlers", of: handlers)
                }
            )
        }
    }
}
