import HTTPTypes
import Hummingbird
import Vocabulary

/// The API's description (OpenAPI 3.1): `GET openapi.json`, without authentication.
///
/// A test compares its paths and methods with the router's, both ways.
enum OpenAPIDocument {
    struct Parameter: Sendable {
        var place: StaticString
        var name: StaticString
        var schema: StaticString
        var about: StaticString
        var isRequired = false
    }

    struct Answer: Sendable {
        var status: Int
        var about: StaticString
        /// The name of its schema; nil for unstructured text.
        var schema: StaticString?
        var type: StaticString = "application/json"
    }

    struct Operation: Sendable {
        var method: StaticString
        var path: StaticString
        var summary: StaticString
        var parameters: [Parameter] = []
        /// The name of its body's schema; nil without a body.
        var body: StaticString?
        var answers: [Answer]
        /// The statuses of its problems, besides ``always``.
        var problems: [Int] = []
    }

    /// The statuses of problems of every operation.
    static let always = [400, 401, 403, 429, 500, 503, 504]

    static var operations: [Operation] { reading + streams + state + actions }

    /// The whole document.
    ///
    /// - Parameter version: The program's version.
    /// - Returns: JSON.
    static func json(version: String) -> [UInt8] {
        var json = JSONWriter(capacity: 64 << 10)
        json.beginObject()
        json.member("openapi", "3.1.0")
        json.name("info")
        json.beginObject()
        json.member("title", "upstream-worker console")
        json.member("version", version)
        json.member(
            "description",
            "Queries and acts on what upstream-worker has stored. Times are RFC 3339 in UTC; errors are problems (RFC 9457)."
        )
        json.endObject()
        json.name("servers")
        json.json(Array(#"[{"url":"/api/v1"}]"#.utf8))
        json.name("security")
        json.json(Array(#"[{"token":[]},{"session":[]}]"#.utf8))
        json.name("paths")
        json.beginObject()
        var rest = operations[...]
        while let first = rest.first {
            json.name(first.path)
            json.beginObject()
            for operation in rest where operation.path.description == first.path.description {
                json.name(operation.method)
                operation.write(to: &json)
            }
            json.endObject()
            rest = rest.filter { $0.path.description != first.path.description }[...]
        }
        json.endObject()
        json.name("components")
        json.beginObject()
        json.name("securitySchemes")
        json.json(Array(securitySchemes.utf8))
        json.name("schemas")
        json.beginObject()
        let all = [actionSchemas, ResourceCatalog.schemas].reduce(schemas) { $0.merging($1) { $1 } }
        for (name, schema) in all.sorted(by: { $0.key < $1.key }) {
            json.name(escaping: name)
            json.json(Array(schema.utf8))
        }
        json.endObject()
        json.endObject()
        json.endObject()
        return json.finish()
    }

    private static let securitySchemes = """
        {"token":{"type":"http","scheme":"bearer","description":"a token of console.tokens"},
        "session":{"type":"apiKey","in":"cookie","name":"session","description":"what signing in gives a browser"}}
        """
}

extension OpenAPIDocument.Operation {
    func write(to json: inout JSONWriter) {
        json.beginObject()
        json.member("summary", summary.description)
        if path.description == "/openapi.json" {
            json.name("security")
            json.json(Array("[]".utf8))
        }
        if !parameters.isEmpty {
            json.name("parameters")
            json.array(parameters) { json, parameter in
                json.beginObject()
                json.member("name", parameter.name.description)
                json.member("in", parameter.place.description)
                json.member("description", parameter.about.description)
                if parameter.isRequired { json.member("required", is: true) }
                json.member("schema", json: Array(parameter.schema.description.utf8))
                json.endObject()
            }
        }
        if let body {
            json.name("requestBody")
            json.beginObject()
            json.name("content")
            Self.content("application/json", body, to: &json)
            json.endObject()
        }
        json.name("responses")
        json.beginObject()
        for answer in answers {
            json.name(escaping: String(answer.status))
            json.beginObject()
            json.member("description", answer.about.description)
            json.name("content")
            Self.content(answer.type, answer.schema, to: &json)
            json.endObject()
        }
        for status in Set(OpenAPIDocument.always + problems).sorted() {
            json.name(escaping: String(status))
            json.beginObject()
            json.member("description", HTTPResponse.Status(code: status).reasonPhrase)
            json.name("content")
            Self.content("application/problem+json", "Problem", to: &json)
            json.endObject()
        }
        json.endObject()
        json.endObject()
    }

    private static func content(
        _ type: StaticString,
        _ schema: StaticString?,
        to json: inout JSONWriter
    ) {
        json.beginObject()
        json.name(type)
        json.beginObject()
        json.name("schema")
        json.beginObject()
        if let schema {
            json.member("$ref", "#/components/schemas/\(schema)")
        } else {
            json.member("type", "string")
        }
        json.endObject()
        json.endObject()
        json.endObject()
    }
}

/// `GET openapi.json`.
struct OpenAPIRoutes: ConsoleRoutes {
    let services: ConsoleServices

    init(_ services: ConsoleServices) { self.services = services }

    func add(to router: RouterGroup<ConsoleContext>) {
        let document = OpenAPIDocument.json(version: services.settings.version)
        router.get("openapi.json") { _, _ in JSONAnswer.of(document) }
    }
}
