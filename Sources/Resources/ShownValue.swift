package import UpstreamKit
package import Vocabulary

package protocol ShownValue: Sendable {
    static var schema: ValueSchema { get }
    /// Its text in CSV and in lists of facts; nil for null.
    var text: String? { get }
    /// Its text in a terminal's table.
    var cell: String { get }
    func write(to json: inout JSONWriter)
}

extension ShownValue {
    package var cell: String { text ?? "-" }

    /// The JSON itself, for everything but strings and null.
    package var text: String? { String(decoding: json(), as: UTF8.self) }

    /// The value as JSON on one line.
    ///
    /// `isForTerminal` also escapes characters that a terminal acts on.
    package func json(isForTerminal: Bool = false) -> [UInt8] {
        var json = JSONWriter(isForTerminal: isForTerminal)
        write(to: &json)
        return json.finish()
    }
}

package struct ValueSchema: Sendable {
    package var type: StaticString?
    /// What a string holds: `date-time`, `uuid`.
    package var format: StaticString?
    /// The words of a closed set; empty for any text.
    package var words: [String] = []
    /// What an array holds; nil for other types.
    package var items: (any ShownValue.Type)?
    /// The resource that an object is; nil for other types.
    package var resource: (any ShownResource.Type)?
    package var isNullable = false

    package var isNumber: Bool { ["integer", "number"].contains(type?.description) }

    package init(
        _ type: StaticString?,
        format: StaticString? = nil,
        words: [String] = [],
        items: (any ShownValue.Type)? = nil,
        resource: (any ShownResource.Type)? = nil
    ) {
        (self.type, self.format, self.words, self.items, self.resource) = (type, format, words, items, resource)
    }

    /// The JSON Schema; `about` says what the value means.
    package func json(about: StaticString? = nil) -> JSONObject {
        if let resource {
            let reference: JSONObject = ["$ref": "#/components/schemas/\(resource.resource)"]
            return isNullable ? ["oneOf": [reference, ["type": "null"]]] : reference
        }
        var json: JSONObject = [:]
        if let type { json.add("type", isNullable ? [type.description, "null"] : type.description as any ShownValue) }
        if let format { json.add("format", format.description) }
        if !words.isEmpty { json.add("enum", words.map(Optional.some) + (isNullable ? [nil] : [])) }
        if let items { json.add("items", items.schema.json()) }
        if let about { json.add("description", about.description) }
        return json
    }
}

extension String: ShownValue {
    package static var schema: ValueSchema { ValueSchema("string") }
    package var text: String? { self }
    package func write(to json: inout JSONWriter) { json.string(self) }
}

extension Int: ShownValue {
    package static var schema: ValueSchema { ValueSchema("integer") }
    package func write(to json: inout JSONWriter) { json.integer(self) }
}

extension Int64: ShownValue {
    package static var schema: ValueSchema { ValueSchema("integer") }
    package func write(to json: inout JSONWriter) { json.integer(self) }
}

extension Double: ShownValue {
    package static var schema: ValueSchema { ValueSchema("number") }
    package func write(to json: inout JSONWriter) { json.number(self) }
}

extension Bool: ShownValue {
    package static var schema: ValueSchema { ValueSchema("boolean") }
    package func write(to json: inout JSONWriter) { json.bool(self) }
}

extension Timestamp: ShownValue {
    package static var schema: ValueSchema { ValueSchema("string", format: "date-time") }
    package var text: String? { rfc3339 }
    package var cell: String { shown }
    package func write(to json: inout JSONWriter) { json.time(self) }
}

/// A UUID, or a key that is one.
package protocol ShownKey: ShownValue, CustomStringConvertible {
    var digest: Digest128 { get }
}

extension ShownKey {
    package static var schema: ValueSchema { ValueSchema("string", format: "uuid") }
    package var text: String? { description }
    package func write(to json: inout JSONWriter) { json.uuid(digest) }
}

extension Digest128: ShownKey {
    package var digest: Digest128 { self }
}

extension MessageKey: ShownKey {}
extension DeviceKey: ShownKey {}

/// JSON text, embedded as it came.
package struct JSONText: ShownValue {
    private let utf8: [UInt8]

    package init(_ utf8: [UInt8]) { self.utf8 = utf8 }

    package init(_ text: String) { utf8 = Array(text.utf8) }

    package static var schema: ValueSchema { ValueSchema(nil) }
    package var text: String? { String(decoding: utf8, as: UTF8.self) }
    package func write(to json: inout JSONWriter) { json.json(utf8) }
}

extension Optional: ShownValue where Wrapped: ShownValue {
    package static var schema: ValueSchema {
        var schema = Wrapped.schema
        schema.isNullable = true
        return schema
    }
    package var text: String? { self?.text }
    package var cell: String { self?.cell ?? "-" }
    package func write(to json: inout JSONWriter) {
        if let self { self.write(to: &json) } else { json.null() }
    }
}

extension Array: ShownValue where Element: ShownValue {
    package static var schema: ValueSchema { ValueSchema("array", items: Element.self) }
    package var cell: String { map(\.cell).joined(separator: ",") }
    package func write(to json: inout JSONWriter) {
        json.beginArray()
        for value in self { value.write(to: &json) }
        json.endArray()
    }
}

/// A JSON object of any members, in their order.
package struct JSONObject: ShownValue, ExpressibleByDictionaryLiteral {
    private var members: [(name: String, value: any ShownValue)]

    package init(dictionaryLiteral members: (String, any ShownValue)...) { self.members = members.map { $0 } }

    /// A resource's members, of which it leaves none out.
    package init<Row: ShownResource>(_ row: Row) { members = Row.fields.map { ($0.name.description, $0.value(row)) } }

    package static var schema: ValueSchema { ValueSchema("object") }

    package mutating func add(_ name: String, _ value: any ShownValue) { members.append((name, value)) }

    package mutating func add(_ other: JSONObject) { members += other.members }

    package func write(to json: inout JSONWriter) {
        json.beginObject()
        for (name, value) in members {
            json.name(escaping: name)
            value.write(to: &json)
        }
        json.endObject()
    }
}

/// A word of a closed set.
package protocol ShownWord: ShownValue, RawRepresentable<String>, CaseIterable {}

extension ShownWord {
    package static var schema: ValueSchema { ValueSchema("string", words: allCases.map(\.rawValue)) }
    package var text: String? { rawValue }
    package func write(to json: inout JSONWriter) { json.string(rawValue) }
}
