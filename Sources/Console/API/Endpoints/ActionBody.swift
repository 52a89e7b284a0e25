import Foundation
import Querying
import Resources
import Vocabulary

/// What describes a member of a body, and reads it.
protocol BodyMember: Sendable {
    var name: StaticString { get }
    var schema: String { get }
    /// Its value; nil where it is missing or null.
    func value(in body: KeyedDecodingContainer<AnyKey>, _ key: AnyKey) throws -> (any Sendable)?
}

/// A member of a body, of some type.
struct Member<Value: Decodable & Sendable>: BodyMember {
    let name: StaticString
    let schema: String

    init(_ name: StaticString, _ schema: String) { (self.name, self.schema) = (name, schema) }

    func value(in body: KeyedDecodingContainer<AnyKey>, _ key: AnyKey) throws -> (any Sendable)? {
        try body.decodeIfPresent(Value.self, forKey: key)
    }
}

/// A member that holds the fields of a filter.
struct FilterMember<Filter: Filtered>: BodyMember {
    let name: StaticString = "filter"

    var schema: String { String(decoding: ActionBody.schema(Filter.members).json(), as: UTF8.self) }

    func value(in body: KeyedDecodingContainer<AnyKey>, _ key: AnyKey) throws -> (any Sendable)? {
        guard body.contains(key), try !body.decodeNil(forKey: key) else { return nil }
        return try ActionBody(body.nestedContainer(keyedBy: AnyKey.self, forKey: key), Filter.members, "\(name).")
    }
}

extension Filtered {
    static var members: [any BodyMember] { filters }
}

extension FilterField: BodyMember {
    func value(in body: KeyedDecodingContainer<AnyKey>, _ key: AnyKey) throws -> (any Sendable)? {
        // One value of a repeatable field needs no list.
        if !isRepeatable || (try? body.decode(String.self, forKey: key)) != nil {
            return try body.decodeIfPresent(String.self, forKey: key).map { [$0] }
        }
        let values = try body.decodeIfPresent([String].self, forKey: key)
        // It would be as if it were left out, and select everything.
        guard values != [] else {
            throw Problem.badRequest("'\(name)' is an empty list: give a value, or leave it out")
        }
        return values
    }
}

/// The body of a request that changes something, with the members that its endpoint declares.
///
/// Others are refused: a filter with a typing error must not select everything.
struct ActionBody: DecodableWithConfiguration, Sendable {
    /// Why, for the audit trail.
    static let reason = Member<String>(
        "reason",
        #"{"type":"string","maxLength":1000,"examples":["its server is back"]}"#
    )
    /// Whether an empty filter may select everything.
    static let all = Member<Bool>("all", #"{"type":"boolean"}"#)
    /// The time of a page or of a count: what came later is left alone.
    static let asOf = Member<String>(
        "as_of",
        #"{"type":"string","format":"date-time","examples":["2026-01-31T12:00:00Z"]}"#
    )

    private var values: [String: any Sendable] = [:]

    init() {}

    init(from decoder: any Decoder, configuration members: [any BodyMember]) throws {
        try self.init(decoder.container(keyedBy: AnyKey.self), members, "")
    }

    fileprivate init(_ body: KeyedDecodingContainer<AnyKey>, _ members: [any BodyMember], _ prefix: String) throws {
        let names = members.map(\.name.description)
        if let key = body.allKeys.first(where: { !names.contains($0.stringValue) }) {
            let known = names.map { prefix + $0 }.sorted().joined(separator: ", ")
            let name = (prefix + key.stringValue).prefix(100)
            throw Problem.badRequest("the member '\(name)' is unknown; known are \(known)")
        }
        for (name, member) in zip(names, members) { values[name] = try member.value(in: body, AnyKey(name)) }
    }

    subscript<Value>(_ member: Member<Value>) -> Value? { values[member.name.description] as? Value }

    subscript<Filter>(_ member: FilterMember<Filter>) -> ActionBody? { values[member.name.description] as? ActionBody }

    /// The time that ``asOf`` names; nil without one.
    var time: Timestamp? {
        get throws(Problem) {
            guard let text = self[Self.asOf] else { return nil }
            guard let time = try? TimeExpression.moment(text) else {
                throw .badRequest("'as_of' is a time, as an answer gives it: 2026-01-31T12:00:00Z")
            }
            return time
        }
    }

    /// What is asked for by the fields of a filter; `others` count towards the bounds as well.
    func asked<Filter: Filtered>(
        _ type: Filter.Type,
        _ sight: Sight,
        and others: [String: [String]] = [:]
    ) throws -> Asked<Filter> {
        let texts = values.compactMapValues { $0 as? [String] }
        if let excess = FilterBounds.excess(in: texts.merging(others) { $1 }) { throw Problem.badRequest(excess) }
        return try Asked(texts, sight: sight)
    }

    /// The JSON Schema of an object with these members and no others.
    static func schema(_ members: [any BodyMember]) -> JSONObject {
        var properties: JSONObject = [:]
        for member in members { properties.add(member.name.description, JSONText(member.schema)) }
        return ["type": "object", "properties": properties, "additionalProperties": false]
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
