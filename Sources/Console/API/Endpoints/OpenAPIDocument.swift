import HTTPTypes
import Vocabulary

/// The API's description (OpenAPI 3.1), made from the endpoints that are served: `GET openapi.json`, without a token.
enum OpenAPIDocument {
    /// The endpoint that answers with the description of all others and of itself.
    static func endpoint(beside others: [Endpoint], version: String) -> Endpoint {
        func endpoint(_ handle: @escaping Endpoint.Handle) -> Endpoint {
            .get("getDescription", "openapi.json", "This document.", .one("Document"), right: nil, handle)
        }
        let document = json(others + [endpoint { _ in throw Problem.notFound("") }], version: version)
        return endpoint { _ in .json(document) }
    }

    /// The whole document as JSON.
    static func json(_ endpoints: [Endpoint], version: String) -> [UInt8] {
        var json = JSONWriter(capacity: 64 << 10)
        json.object { json in
            json.member("openapi", "3.1.0")
            json.name("info")
            json.object { json in
                json.member("title", "upstream-worker console")
                json.member("version", version)
                json.member(
                    "description",
                    "Queries and acts on what upstream-worker has stored. Times are RFC 3339 in UTC; errors are problems (RFC 9457)."
                )
            }
            json.member("servers", json: Array(#"[{"url":"/api/v1"}]"#.utf8))
            json.member("security", json: Array(#"[{"token":[]},{"session":[]}]"#.utf8))
            json.name("paths")
            json.object { json in
                for (path, endpoints) in Dictionary(grouping: endpoints, by: \.path).sorted(by: { $0.key < $1.key }) {
                    json.name(escaping: "/" + path)
                    json.object { json in
                        for endpoint in endpoints {
                            json.name(escaping: endpoint.method.rawValue.lowercased())
                            endpoint.describe(to: &json)
                        }
                    }
                }
            }
            json.name("components")
            json.object { json in
                json.member("securitySchemes", json: Array(securitySchemes.utf8))
                json.name("schemas")
                json.object { json in
                    for (name, schema) in ResourceCatalog.schemas.sorted(by: { $0.key < $1.key }) {
                        json.name(escaping: name)
                        json.json(Array(schema.utf8))
                    }
                }
            }
        }
        return json.finish()
    }

    private static let securitySchemes = """
        {"token":{"type":"http","scheme":"bearer","description":"a token of console.tokens"},
        "session":{"type":"apiKey","in":"cookie","name":"session","description":"what signing in gives a browser"}}
        """
}

extension Endpoint {
    /// Writes it as an operation of the description.
    fileprivate func describe(to json: inout JSONWriter) {
        json.object { json in
            json.member("operationId", operation.description)
            json.member("tags", of: [String(tag)])
            json.member("summary", summary.description)
            if right == nil { json.member("security", json: Array("[]".utf8)) }
            if !parameters.isEmpty {
                json.name("parameters")
                json.beginArray()
                for parameter in parameters { parameter.describe(to: &json) }
                json.endArray()
            }
            if let body {
                json.name("requestBody")
                json.object { Self.content("application/json", ActionBody.schema(body), to: &$0) }
            }
            json.name("responses")
            json.object { json in
                for answer in answers {
                    json.name(escaping: String(answer.status))
                    json.object { json in
                        json.member("description", answer.about.description)
                        Self.content(answer.type, answer.schema, to: &json)
                    }
                }
                for status in problems {
                    json.name(escaping: String(status))
                    json.object { json in
                        json.member("description", HTTPResponse.Status(code: status).reasonPhrase)
                        Self.content("application/problem+json", Answer.one("Problem").schema, to: &json)
                    }
                }
            }
        }
    }

    private static func content(_ type: StaticString, _ schema: String, to json: inout JSONWriter) {
        json.name("content")
        json.object { json in
            json.name(type)
            json.object { $0.member("schema", json: Array(schema.utf8)) }
        }
    }
}

extension EndpointParameter {
    /// Writes it as a parameter of the description.
    fileprivate func describe(to json: inout JSONWriter) {
        json.object { json in
            json.member("name", name.description)
            json.member("in", place.rawValue)
            json.member("description", about.description)
            if isRequired { json.member("required", of: true) }
            json.member("schema", json: Array(schema.utf8))
        }
    }
}
