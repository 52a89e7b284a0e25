import Querying
import Resources

/// The body of a request that changes something.
protocol ActionBody: Decodable, Sendable {
    /// Every member that it may have.
    static var members: [BodyMember] { get }
}

/// A member of a body.
struct BodyMember: Sendable {
    /// Its name.
    let name: String
    /// Its JSON Schema.
    let schema: String
    /// Its own members, of an object.
    let members: [BodyMember]

    init(_ name: String, _ schema: String = #"{"type":"string"}"#) {
        (self.name, self.schema, members) = (name, schema, [])
    }

    /// A member that is an object.
    init(_ name: String, _ members: [BodyMember]) {
        (self.name, self.members, schema) = (name, members, Self.schema(members))
    }

    /// Why, for the audit trail.
    static let reason = BodyMember("reason", #"{"type":"string","maxLength":1000}"#)

    /// The fields of a filter.
    static func fields<Filter: Filtered>(of _: Filter.Type) -> [BodyMember] {
        Filter.filters.map { BodyMember($0.name.description, $0.schema) }
    }

    /// The JSON Schema of an object with these members and no others.
    static func schema(_ members: [BodyMember]) -> String {
        let properties = members.map { "\"\($0.name)\":\($0.schema)" }.joined(separator: ",")
        return #"{"type":"object","properties":{\#(properties)},"additionalProperties":false}"#
    }
}

/// The fields of a filter as members of a body.
struct FilterBody<Filter: Filtered>: Decodable, Sendable {
    /// What is written, by the fields' names.
    private(set) var values: [String: [String]] = [:]

    /// What selects everything.
    init() {}

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: AnyKey.self)
        for field in Filter.filters {
            let (name, key) = (field.name.description, AnyKey(field.name.description))
            if field.isRepeatable {
                values[name] = try container.decodeIfPresent([String].self, forKey: key)
            } else {
                values[name] = try container.decodeIfPresent(String.self, forKey: key).map { [$0] }
            }
        }
    }

    /// What is asked for.
    ///
    /// - Parameter sight: What who asks may see, and so may look for.
    /// - Throws: A ``Problem``
    /// - Returns: The filter as it is written.
    func asked(_ sight: Sight) throws(Problem) -> Asked<Filter> {
        if let excess = FilterBounds.excess(in: values) { throw .badRequest(excess) }
        do throws(FilterMistake) {
            return try Asked(values, sight: sight)
        } catch {
            throw Problem(error)
        }
    }
}

/// Decodes a body and refuses members that it doesn't know: a filter with a typing error must not select everything.
struct StrictBody<Body: ActionBody>: Decodable {
    let value: Body

    init(from decoder: any Decoder) throws {
        try Self.check(decoder.container(keyedBy: AnyKey.self), Body.members, "")
        value = try Body(from: decoder)
    }

    private static func check(
        _ container: KeyedDecodingContainer<AnyKey>,
        _ members: [BodyMember],
        _ prefix: String
    ) throws {
        for key in container.allKeys {
            guard let member = members.first(where: { $0.name == key.stringValue }) else {
                let known = members.map { prefix + $0.name }.sorted().joined(separator: ", ")
                let name = (prefix + key.stringValue).prefix(100)
                throw Problem.badRequest("the member '\(name)' is unknown; known are \(known)")
            }
            guard !member.members.isEmpty, try !container.decodeNil(forKey: key) else { continue }
            let object = try container.nestedContainer(keyedBy: AnyKey.self, forKey: key)
            try check(object, member.members, prefix + member.name + ".")
        }
    }
}

/// A member's name, whatever it is.
struct AnyKey: CodingKey {
    let stringValue: String
    var intValue: Int? { nil }

    init(_ name: String) { stringValue = name }
    init?(stringValue: String) { self.init(stringValue) }
    init?(intValue: Int) { nil }
}
