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
    package var text: String? {
        var json = JSONWriter()
        write(to: &json)
        return String(decoding: json.finish(), as: UTF8.self)
    }
}

package struct ValueSchema: Sendable {
    package var type: StaticString?
    /// What a string holds: `date-time`, `uuid`.
    package var format: StaticString?
    /// The words of a closed set; empty for any text.
    package var words: [String] = []
    /// The schema of an array's items, in JSON; nil for other types.
    package var items: String?
    /// The resource that an object is; nil for other types.
    package var resource: String?
    package var isNullable = false

    package var isNumber: Bool { ["integer", "number"].contains(type?.description) }

    package init(_ type: StaticString?, format: StaticString? = nil, words: [String] = [], items: String? = nil) {
        (self.type, self.format, self.words, self.items) = (type, format, words, items)
    }

    func json(about: StaticString? = nil) -> String {
        var json = JSONWriter()
        write(to: &json, about: about)
        return String(decoding: json.finish(), as: UTF8.self)
    }

    /// Writes it as a JSON object; `about` says what the value means.
    func write(to json: inout JSONWriter, about: StaticString?) {
        json.beginObject()
        if let resource {
            let reference = ##""$ref":"#/components/schemas/\##(resource)""##
            let either = #""oneOf":[{\#(reference)},{"type":"null"}]"#
            json.json(Array((isNullable ? either : reference).utf8))
            return json.endObject()
        }
        if let type {
            json.name("type")
            if isNullable { json.beginArray() }
            json.string(type.description)
            if isNullable {
                json.string("null")
                json.endArray()
            }
        }
        if let format { json.member("format", format.description) }
        if !words.isEmpty {
            json.name("enum")
            json.beginArray()
            for word in words { json.string(word) }
            if isNullable { json.null() }
            json.endArray()
        }
        if let items {
            json.name("items")
            json.json(Array(items.utf8))
        }
        if let about { json.member("description", about.description) }
        json.endObject()
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

extension Digest128: ShownValue {
    package static var schema: ValueSchema { ValueSchema("string", format: "uuid") }
    package var text: String? { description }
    package func write(to json: inout JSONWriter) { json.uuid(self) }
}

extension MessageKey: ShownValue {
    package static var schema: ValueSchema { Digest128.schema }
    package var text: String? { description }
    package func write(to json: inout JSONWriter) { json.uuid(digest) }
}

extension DeviceKey: ShownValue {
    package static var schema: ValueSchema { Digest128.schema }
    package var text: String? { description }
    package func write(to json: inout JSONWriter) { json.uuid(digest) }
}

/// JSON text, embedded as it came.
package struct JSONText: ShownValue {
    let utf8: [UInt8]

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
    package static var schema: ValueSchema {
        ValueSchema("array", items: Element.schema.json())
    }
    package var cell: String { map(\.cell).joined(separator: ",") }
    package func write(to json: inout JSONWriter) {
        json.beginArray()
        for value in self { value.write(to: &json) }
        json.endArray()
    }
}

package struct Rows<Row: ShownResource>: ShownValue {
    private let rows: [Row]

    package init(_ rows: [Row]) { self.rows = rows }

    package static var schema: ValueSchema {
        ValueSchema("array", items: "{\"$ref\":\"#/components/schemas/\(Row.schema)\"}")
    }
    package func write(to json: inout JSONWriter) {
        json.beginArray()
        for row in rows { row.write(to: &json) }
        json.endArray()
    }
}

package struct Nested<Row: ShownResource>: ShownValue {
    private let row: Row

    package init(_ row: Row) { self.row = row }

    package static var schema: ValueSchema {
        var schema = ValueSchema("object")
        schema.resource = Row.schema
        return schema
    }
    package func write(to json: inout JSONWriter) { row.write(to: &json) }
}

/// A word of a closed set.
package protocol ShownWord: ShownValue, RawRepresentable<String>, CaseIterable {}

extension ShownWord {
    package static var schema: ValueSchema { ValueSchema("string", words: allCases.map(\.rawValue)) }
    package var text: String? { rawValue }
    package func write(to json: inout JSONWriter) { json.string(rawValue) }
}
