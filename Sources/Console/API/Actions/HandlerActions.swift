import Hummingbird
import MessageStore
import Postgres
import Vocabulary

/// `POST handlers/{name}/pause` and `resume`.
struct HandlerActions: EndpointGroup {
    let services: ConsoleServices

    private struct Pause: ActionBody {
        static let members = [BodyMember.reason, BodyMember("for", #"{"type":"string","examples":["30m"]}"#)]
        var reason: String?
        /// Such as `30m`; nil until resumed.
        var length: String?

        enum CodingKeys: String, CodingKey {
            case reason
            case length = "for"
        }
    }

    private static let name = Parameter.path("name", "The handler's name.") { $0 }

    var endpoints: [Endpoint] {
        [
            .post(
                "pauseHandler",
                "handlers/{name}/pause",
                "Pauses a handler in every worker.",
                [Self.name],
                body: Pause.self,
                pause
            ),
            .post("resumeHandler", "handlers/{name}/resume", "Resumes a handler.", [Self.name], resume),
        ]
    }

    private func pause(_ endpoint: EndpointRequest) async throws -> Response {
        let request = try await ActionRequest(endpoint, services.settings)
        let name = try endpoint[Self.name]
        let body = try request.decode(Pause.self)
        let author = try request.author(body.reason)
        let length = try body.length.map { text throws(Problem) in try Self.length(text) }
        return try await IdempotentActions(services: services).perform(request) { connection throws(PostgresError) in
            guard let pause = try HandlerStates.pause(connection, name, for: length, by: author) else {
                return .failure(.unknownHandler(name))
            }
            return .success(
                ActionAnswer {
                    $0.member("handler", name)
                    $0.name("paused")
                    $0.bool(true)
                    $0.member("paused_until", of: pause.until)
                }
            )
        }
    }

    private func resume(_ endpoint: EndpointRequest) async throws -> Response {
        let request = try await ActionRequest(endpoint, services.settings)
        let name = try endpoint[Self.name]
        let author = try request.author(try request.decode(ReasonBody.self).reason)
        return try await IdempotentActions(services: services).perform(request) { connection throws(PostgresError) in
            guard try HandlerStates.resume(connection, name, by: author) else {
                return .failure(.unknownHandler(name))
            }
            return .success(
                ActionAnswer {
                    $0.member("handler", name)
                    $0.name("paused")
                    $0.bool(false)
                }
            )
        }
    }

    private static func length(_ text: String) throws(Problem) -> Duration {
        guard let parsed = DurationText(text), parsed.count > 0, parsed.unit != nil, let length = parsed.duration,
            length <= .seconds(36_525 * 86_400)
        else { throw .badRequest("'for' is a duration such as 30m or 12h") }
        return length
    }
}

struct ReasonBody: ActionBody {
    static let members = [BodyMember.reason]
    /// Why, for the audit trail.
    var reason: String?
}

extension Problem {
    static func unknownHandler(_ name: String) -> Problem {
        .notFound("no handler '\(name.prefix(100))' is registered: GET handlers lists them")
    }
}
