import HTTPTypes
import Hummingbird
import Postgres
import Resources

/// An operation of the API: the router serves it, and the API's description tells it, from this value alone.
struct Endpoint: Sendable {
    /// What succeeds.
    struct Answer: Sendable {
        var status = 200
        var about: StaticString = "What was asked for"
        var schema: JSONObject = ["type": "string"]
        var type: StaticString = "application/json"
        /// The resource that it shows; nil for anything else.
        var resource: (any ShownResource.Type)?

        static func one(
            _ resource: any ShownResource.Type,
            _ status: Int = 200,
            _ about: StaticString = "What was asked for"
        ) -> Answer {
            Answer(status: status, about: about, schema: resource.schema.json(), resource: resource)
        }

        /// Something that is no resource, by its schema's name, and the resource that it holds.
        static func one(
            named name: String,
            _ about: StaticString = "What was asked for",
            of resource: (any ShownResource.Type)? = nil
        ) -> Answer {
            Answer(about: about, schema: ["$ref": "#/components/schemas/\(name)"], resource: resource)
        }

        static func page(of resource: any ShownResource.Type) -> Answer {
            let items: JSONObject = ["type": "array", "items": resource.schema.json()]
            let next: JSONObject = ["type": ["string", "null"]]
            let schema: JSONObject = [
                "type": "object", "required": ["items", "next"],
                "properties": ["items": items, "next": next] as JSONObject, "additionalProperties": false,
            ]
            return Answer(about: "A page", schema: schema, resource: resource)
        }

        static func stream(_ type: StaticString, _ about: StaticString) -> Answer { Answer(about: about, type: type) }
    }

    typealias Handle = @Sendable (EndpointRequest) async throws -> Response

    /// Its name in clients that are made from the description.
    let operation: StaticString
    /// The path below `/api/v1/`, with `{…}` for its parameters.
    let path: String
    private(set) var summary: StaticString = ""
    private(set) var answers: [Answer] = []
    private(set) var parameters: [any EndpointParameter] = []
    /// The members of its body, the first of which is ``ActionBody/reason``; nil where it takes none.
    private(set) var body: [any BodyMember]?
    /// What who asks must be allowed; nil where anybody may ask.
    let right: ConsoleRight?
    let handle: Handle

    static func get(
        _ operation: StaticString,
        _ path: String,
        right: ConsoleRight? = .read,
        _ handle: @escaping Handle
    ) -> Endpoint { Endpoint(operation: operation, path: path, right: right, handle: handle) }

    /// What shows how things stand at the primary.
    static func get<Row: ShownResource>(
        _ operation: StaticString,
        _ path: String,
        _ summary: StaticString,
        one read: @escaping @Sendable (PostgresConnection) async throws -> Row
    ) -> Endpoint {
        get(operation, path) { request in
            .json(try await request.services.primary.withConnection { try await read($0) }.json())
        }
        .about(summary, .one(Row.self))
    }

    /// What shows how things stand at the primary, in rows.
    static func get<Row: ShownResource>(
        _ operation: StaticString,
        _ path: String,
        _ summary: StaticString,
        rows read: @escaping @Sendable (PostgresConnection) async throws -> [Row]
    ) -> Endpoint {
        get(operation, path) { request in
            .page(try await request.services.primary.withConnection { try await read($0) })
        }
        .about(summary, .page(of: Row.self))
    }

    /// What changes something; it takes a reason besides its body, and an `Idempotency-Key`.
    static func action(
        _ operation: StaticString,
        _ path: String,
        _ handle: @escaping @Sendable (ActionRequest) async throws -> Response
    ) -> Endpoint {
        var endpoint = Endpoint(operation: operation, path: path, right: .act) { request in
            try await handle(ActionRequest(request))
        }
        (endpoint.parameters, endpoint.body) = ([ActionRequest.key], [ActionBody.reason])
        return endpoint
    }

    /// The same with what it does, and how it answers; an action by default with its outcome.
    func about(_ summary: StaticString, _ answers: Answer...) -> Endpoint {
        var endpoint = self
        endpoint.summary = summary
        endpoint.answers = answers.isEmpty ? [.one(named: "Outcome", "Done")] : answers
        return endpoint
    }

    /// The same with further parameters, and members of its body.
    func takes(_ parameters: [any EndpointParameter], body members: [any BodyMember] = []) -> Endpoint {
        var endpoint = self
        endpoint.parameters = parameters + self.parameters
        if let body { endpoint.body = body + members }
        return endpoint
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
