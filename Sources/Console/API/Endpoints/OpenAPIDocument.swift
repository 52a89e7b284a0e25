import HTTPTypes
import Resources

/// The API's description (OpenAPI 3.1), made from the endpoints that are served: `GET openapi.json`, without a token.
enum OpenAPIDocument {
    /// The endpoint that answers with the description of all others and of itself.
    static func endpoint(beside others: [Endpoint], version: String) -> Endpoint {
        func endpoint(_ handle: @escaping Endpoint.Handle) -> Endpoint {
            .get("getDescription", "openapi.json", right: nil, handle).about("This document.", .one(named: "Document"))
        }
        let document = json(others + [endpoint { _ in throw Problem.notFound("") }], version: version)
        return endpoint { _ in .json(document) }
    }

    /// The whole document as JSON.
    static func json(_ endpoints: [Endpoint], version: String) -> [UInt8] {
        let about = """
            Queries and acts on what upstream-worker has stored. Times are RFC 3339 in UTC; errors are problems (RFC 9457).
            """
        var paths: JSONObject = [:]
        for (path, endpoints) in Dictionary(grouping: endpoints, by: \.path).sorted(by: { $0.key < $1.key }) {
            var operations: JSONObject = [:]
            for endpoint in endpoints { operations.add(endpoint.method.rawValue.lowercased(), endpoint.description) }
            paths.add("/" + path, operations)
        }
        var schemas: JSONObject = [:]
        for (name, schema) in self.schemas(endpoints).sorted(by: { $0.key < $1.key }) { schemas.add(name, schema) }
        let document: JSONObject = [
            "openapi": "3.1.0",
            "info": ["title": "upstream-worker console", "version": version, "description": about] as JSONObject,
            "servers": JSONText(#"[{"url":"/api/v1"}]"#),
            "security": JSONText(#"[{"token":[]},{"session":[]}]"#),
            "paths": paths,
            "components": ["securitySchemes": JSONText(securitySchemes), "schemas": schemas] as JSONObject,
        ]
        return document.json()
    }

    /// The resources that endpoints show, and those that these hold.
    static func resources(_ endpoints: [Endpoint]) -> [any ShownResource.Type] {
        var rest = endpoints.flatMap(\.answers).compactMap(\.resource) + [Problem.self]
        var known: [ObjectIdentifier: any ShownResource.Type] = [:]
        while let resource = rest.popLast() {
            guard known.updateValue(resource, forKey: ObjectIdentifier(resource)) == nil else { continue }
            rest += resource.parts
        }
        return Array(known.values)
    }

    private static func schemas(_ endpoints: [Endpoint]) -> [String: any ShownValue] {
        var schemas: [String: any ShownValue] = [
            "Outcome": ["type": "object", "description": "What was done; docs/api.md describes each action."]
                as JSONObject,
            "Document": ["type": "object"] as JSONObject,
            "Messages": JSONText(
                #"""
                {"type":"object","required":["items","next"],"properties":{"items":{"type":"array",
                "items":{"$ref":"#/components/schemas/Message"}},"next":{"type":["string","null"]},
                "estimate":{"type":"integer"}},"additionalProperties":false}
                """#
            ),
        ]
        for resource in resources(endpoints) { schemas[resource.resource] = resource.object }
        return schemas
    }

    private static let securitySchemes = """
        {"token":{"type":"http","scheme":"bearer","description":"a token of console.tokens"},
        "session":{"type":"apiKey","in":"cookie","name":"session","description":"what signing in gives a browser"}}
        """
}

extension Endpoint {
    fileprivate var description: JSONObject {
        var object: JSONObject = [
            "operationId": operation.description, "tags": [String(tag)], "summary": summary.description,
        ]
        if right == nil { object.add("security", [String]()) }
        if !parameters.isEmpty { object.add("parameters", parameters.map(\.description)) }
        if let body {
            let content = Self.content("application/json", ActionBody.schema(body))
            object.add("requestBody", ["content": content] as JSONObject)
        }
        var responses: JSONObject = [:]
        func add(_ status: Int, _ about: String, _ content: JSONObject) {
            responses.add(String(status), ["description": about, "content": content] as JSONObject)
        }
        for answer in answers {
            add(answer.status, answer.about.description, Self.content(answer.type, answer.schema))
        }
        for status in problems {
            let about = HTTPResponse.Status(code: status).reasonPhrase
            add(status, about, Self.content("application/problem+json", Problem.schema.json()))
        }
        object.add("responses", responses)
        return object
    }

    private static func content(_ type: StaticString, _ schema: any ShownValue) -> JSONObject {
        [type.description: ["schema": schema] as JSONObject]
    }
}

extension EndpointParameter {
    fileprivate var description: JSONObject {
        var object: JSONObject = ["name": name.description, "in": place.rawValue, "description": about.description]
        if isRequired { object.add("required", true) }
        object.add("schema", JSONText(schema))
        return object
    }
}
