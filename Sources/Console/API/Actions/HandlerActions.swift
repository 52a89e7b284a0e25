import Foundation
import HTTPTypes
import Hummingbird
import MessageStore
import Postgres
import Vocabulary

/// `POST handlers/{name}/pause` and `resume`.
struct HandlerActions: ConsoleRoutes {
    let services: ConsoleServices

    private struct Pause: ActionBody {
        static let members: Set = ["reason", "for"]
        var reason: String?
        /// Such as `30m`; nil until resumed.
        var length: String?

        enum CodingKeys: String, CodingKey {
            case reason
            case length = "for"
        }
    }

    func add(to router: RouterGroup<ConsoleContext>) {
        router.post("handlers/:name/pause", use: pause)
        router.post("handlers/:name/resume", use: resume)
    }

    @Sendable private func pause(_ request: Request, _ context: ConsoleContext) async throws -> Response {
        let request = try await ActionRequest(request, context, limit: services.settings.bodyLimit)
        let name = try context.pathPart("name")
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
                    $0.member("paused_until", pause.until)
                }
            )
        }
    }

    @Sendable private func resume(_ request: Request, _ context: ConsoleContext) async throws -> Response {
        let request = try await ActionRequest(request, context, limit: services.settings.bodyLimit)
        let name = try context.pathPart("name")
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
    static let members: Set = ["reason"]
    /// The reason for the audit trail.
    var reason: String?
}

extension Problem {
    static func unknownHandler(_ name: String) -> Problem {
        .notFound("no handler '\(name.prefix(100))' is registered: GET handlers lists them")
    }
}

extension ConsoleContext {
    /// A path parameter, decoded.
    func pathPart(_ name: String) throws(Problem) -> String {
        guard let text = parameters.get(name)?.removingPercentEncoding, !text.isEmpty, !text.contains("\0") else {
            throw .badRequest("the path has no \(name)")
        }
        return text
    }

    /// A path parameter that is a UUID.
    func uuid(_ name: String) throws(Problem) -> Digest128 {
        guard let id = Digest128(uuid: try pathPart(name).utf8) else {
            throw .badRequest("'\(name)' in the path is a UUID: 8-4-4-4-12 hex digits")
        }
        return id
    }
}
