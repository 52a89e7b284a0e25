import HTTPTypes
import Hummingbird
import Resources

/// An operation of the API: the router serves it, and the API's description tells it, from this value alone.
struct Endpoint: Sendable {
    /// What succeeds.
    struct Answer: Sendable {
        /// The status.
        var status = 200
        /// What it means.
        var about: StaticString
        /// The body's JSON Schema.
        var schema = #"{"type":"string"}"#
        /// The body's media type.
        var type: StaticString = "application/json"

        /// A resource, or what else has a schema of that name.
        static func one(_ schema: String, _ status: Int = 200, _ about: StaticString = "What was asked for") -> Answer {
            Answer(status: status, about: about, schema: ##"{"$ref":"#/components/schemas/\##(schema)"}"##)
        }

        /// A page of a resource.
        static func page(of schema: String) -> Answer { Answer(about: "A page", schema: Resource.page(of: schema)) }

        /// Text that is sent while it is made.
        static func stream(_ type: StaticString, _ about: StaticString) -> Answer { Answer(about: about, type: type) }
    }

    /// Its name in clients that are made from the description.
    let operation: StaticString
    /// `GET` or `POST`.
    let method: HTTPRequest.Method
    /// The path below `/api/v1/`, with `{…}` for its parameters.
    let path: String
    /// What it does.
    let summary: StaticString
    /// What who asks must be allowed; nil where anybody may ask.
    let right: ConsoleRight?
    /// Every parameter that it takes.
    let parameters: [any EndpointParameter]
    /// Its body; nil where it takes none.
    let body: (any ActionBody.Type)?
    /// What succeeds.
    let answers: [Answer]
    /// Does it.
    let handle: @Sendable (EndpointRequest) async throws -> Response

    /// What is looked at.
    ///
    /// - Parameters:
    ///   - operation: Its name in clients.
    ///   - path: The path below `/api/v1/`.
    ///   - summary: What it does.
    ///   - parameters: Every parameter that it takes.
    ///   - answer: What succeeds.
    ///   - right: What who asks must be allowed; nil where anybody may ask.
    ///   - handle: Does it.
    /// - Returns: The endpoint.
    static func get(
        _ operation: StaticString,
        _ path: String,
        _ summary: StaticString,
        _ parameters: [any EndpointParameter],
        _ answer: Answer,
        right: ConsoleRight? = .read,
        _ handle: @escaping @Sendable (EndpointRequest) async throws -> Response
    ) -> Endpoint {
        Endpoint(
            operation: operation,
            method: .get,
            path: path,
            summary: summary,
            right: right,
            parameters: parameters,
            body: nil,
            answers: [answer],
            handle: handle
        )
    }

    /// The same without parameters.
    static func get(
        _ operation: StaticString,
        _ path: String,
        _ summary: StaticString,
        _ answer: Answer,
        _ handle: @escaping @Sendable (EndpointRequest) async throws -> Response
    ) -> Endpoint {
        get(operation, path, summary, [], answer, handle)
    }

    /// What changes something.
    ///
    /// - Parameters:
    ///   - operation: Its name in clients.
    ///   - path: The path below `/api/v1/`.
    ///   - summary: What it does.
    ///   - parameters: Every parameter that it takes besides `Idempotency-Key`.
    ///   - body: Its body.
    ///   - answers: What succeeds.
    ///   - handle: Does it.
    /// - Returns: The endpoint.
    static func post(
        _ operation: StaticString,
        _ path: String,
        _ summary: StaticString,
        _ parameters: [any EndpointParameter] = [],
        body: any ActionBody.Type = ReasonBody.self,
        answers: [Answer] = [.one("Outcome", 200, "Done")],
        _ handle: @escaping @Sendable (EndpointRequest) async throws -> Response
    ) -> Endpoint {
        Endpoint(
            operation: operation,
            method: .post,
            path: path,
            summary: summary,
            right: .act,
            parameters: parameters + [ActionRequest.keyParameter],
            body: body,
            answers: answers,
            handle: handle
        )
    }

    /// The statuses of the problems that it may answer with.
    var problems: [Int] {
        let some = method == .post ? [404, 409, 410, 413, 415, 422, 502] : path.contains("{") ? [404] : []
        return ([400, 401, 403, 429, 500, 503, 504] + some).sorted()
    }

    /// What it belongs to: the first part of its path.
    var tag: Substring { path.prefix { $0 != "/" } }

    /// Serves it: the right first, then its parameters, and then what it does.
    func add(to router: RouterGroup<ConsoleContext>) {
        router.on(RouterPath(path), method: method) { request, context in
            if let right { try context.require(right) }
            return try await handle(EndpointRequest(request, context, self))
        }
    }
}

/// Endpoints that belong together.
protocol EndpointGroup: Sendable {
    /// Each of them.
    var endpoints: [Endpoint] { get }
}
