import Hummingbird
import MessageStore
import Postgres
import Vocabulary

/// `POST handlers/{name}/pause` and `resume`.
enum HandlerActions {
    private static let name = Parameter.name("name", "The handler's name.")
    private static let length = Member<String>("for", #"{"type":"string","examples":["30m"]}"#)

    static let endpoints: [Endpoint] = [
        .action(
            "pauseHandler",
            "handlers/{name}/pause",
            "Pauses a handler in every worker.",
            [name],
            body: [length],
            pause
        ),
        .action("resumeHandler", "handlers/{name}/resume", "Resumes a handler.", [name], resume),
    ]

    private static func pause(_ request: ActionRequest) async throws -> Response {
        let (name, author) = (try request[name], request.author)
        let length = try request.body[length].map(duration)
        return try await request.perform { connection throws(PostgresError) in
            guard let pause = try HandlerStates.pause(connection, name, for: length, by: author) else {
                return .failure(unknown(name))
            }
            return .success(
                ActionAnswer {
                    $0.member("handler", name)
                    $0.member("paused", of: true)
                    $0.member("paused_until", of: pause.until)
                }
            )
        }
    }

    private static func resume(_ request: ActionRequest) async throws -> Response {
        let (name, author) = (try request[name], request.author)
        return try await request.perform { connection throws(PostgresError) in
            guard try HandlerStates.resume(connection, name, by: author) else { return .failure(unknown(name)) }
            return .success(
                ActionAnswer {
                    $0.member("handler", name)
                    $0.member("paused", of: false)
                }
            )
        }
    }

    private static func duration(_ text: String) throws(Problem) -> Duration {
        guard let parsed = DurationText(text), parsed.count > 0, parsed.unit != nil, let length = parsed.duration,
            length <= .seconds(36_525 * 86_400)
        else { throw .badRequest("'for' is a duration such as 30m or 12h") }
        return length
    }

    private static func unknown(_ name: String) -> Problem {
        .notFound("no handler '\(name.prefix(100))' is registered: GET handlers lists them")
    }
}
