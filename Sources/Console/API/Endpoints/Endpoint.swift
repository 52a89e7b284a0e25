import HTTPTypes
import Hummingbird
import Resources

/// An operation of the API: the router serves it, and the API's description tells it, from this value alone.
struct Endpoint: Sendable {
    /// What succeeds.
    struct Answer: Sendable {
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

    typealias Handle = @Sendable (EndpointRequest) async throws -> Response

    /// Its name in clients that are made from the description.
    let operation: StaticString
    /// The path below `/api/v1/`, with `{…}` for its parameters.
    let path: String
    let summary: StaticString
    /// What succeeds.
    let answers: [Answer]
    /// Every parameter that it takes.
    let parameters: [any EndpointParameter]
    /// The members of its body, the first of which is ``ActionBody/reason``; nil where it takes none.
    let body: [any BodyMember]?
    /// What who asks must be allowed; nil where anybody may ask.
    let right: ConsoleRight?
    let handle: Handle

    /// What is looked at.
    static func get(
        _ operation: StaticString,
        _ path: String,
        _ summary: StaticString,
        _ answer: Answer,
        _ parameters: [any EndpointParameter] = [],
        right: ConsoleRight? = .read,
        _ handle: @escaping Handle
    ) -> Endpoint {
        Endpoint(operation, path, summary, [answer], parameters, nil, right, handle)
    }

    /// What changes something; it takes a reason besides its body, and an `Idempotency-Key`.
    static func action(
        _ operation: StaticString,
        _ path: String,
        _ summary: StaticString,
        _ parameters: [any EndpointParameter] = [],
        body: [any BodyMember] = [],
        answers: [Answer] = [.one("Outcome", 200, "Done")],
        _ handle: @escaping @Sendable (ActionRequest) async throws -> Response
    ) -> Endpoint {
        let (parameters, body) = (parameters + [ActionRequest.key], [ActionBody.reason] + body)
        return Endpoint(operation, path, summary, answers, parameters, body, .act) { request in
            try await handle(ActionRequest(request))
        }
    }

    private init(
        _ operation: StaticString,
        _ path: String,
        _ summary: StaticString,
        _ answers: [Answer],
        _ parameters: [any EndpointParameter],
        _ body: [any BodyMember]?,
        _ right: ConsoleRight?,
        _ handle: @escaping Handle
    ) {
        (self.operation, self.path, self.summary, self.answers) = (operation, path, summary, answers)
        (self.parameters, self.body, self.right, self.handle) = (parameters, body, right, handle)
    }

    var method: HTTPRequest.Method { body == nil ? .get : .post }

    /// The statuses of the problems that it may answer with.
    var problems: [Int] {
        let some = body != nil ? [404, 409, 410, 413, 415, 422, 502] : path.contains("{") ? [404] : []
        return ([400, 401, 403, 429, 500, 503, 504] + some).sorted()
    }

    /// What it belongs to: the first part of its path.
    var tag: Substring { path.prefix { $0 != "/" } }

    /// Serves it: the right first, then its parameters, and then what it does.
    func add(to router: RouterGroup<ConsoleContext>, _ services: ConsoleServices) {
        router.on(RouterPath(path), method: method) { request, context in
            if let right { try context.require(right) }
            return try await handle(EndpointRequest(request, context, self, services))
        }
    }
}
