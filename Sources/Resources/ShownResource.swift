package import Querying
package import Vocabulary

/// A row with its fields, each described once.
package protocol ShownResource: Sendable {
    /// The name of its schema in the API's description.
    static var schema: String { get }
    /// Its meaning, for the API's description.
    static var about: StaticString? { get }
    /// Its fields, in the order of tables and JSON objects.
    static var fields: [Field<Self>] { get }
    /// Whether absent values are left out of the object instead of null.
    static var leavesOut: Bool { get }
}

extension ShownResource {
    package static var about: StaticString? { nil }
    package static var leavesOut: Bool { false }

    /// The row as a reader may see it: the only way from a row to an answer or a page.
    ///
    /// `tokens` are the message's, which are masked in what handlers said of it.
    package func shown(to sight: Sight, knowing tokens: [String] = []) -> Self {
        var row = self
        for field in Self.fields { field.redact?(&row, sight, tokens) }
        return row
    }

    /// Writes the row's fields as members of an object.
    package func writeMembers(to json: inout JSONWriter) {
        for field in Self.fields {
            let value = field.value(self)
            if Self.leavesOut, field.schema.isNullable, value.text == nil { continue }
            json.name(field.name)
            value.write(to: &json)
        }
    }

    /// Writes the row as an object.
    package func write(to json: inout JSONWriter) {
        json.beginObject()
        writeMembers(to: &json)
        json.endObject()
    }

    /// The row as a JSON object on one line.
    ///
    /// `isForTerminal` also escapes characters that a terminal acts on.
    package func json(isForTerminal: Bool = false) -> [UInt8] {
        var json = JSONWriter(isForTerminal: isForTerminal)
        write(to: &json)
        return json.finish()
    }

    /// The columns of a terminal's table.
    package static var columns: [TableColumn] { fields.compactMap(\.column) }

    package var cells: [String] {
        Self.fields.compactMap { field in
            field.column == nil ? nil : field.cell?(self) ?? field.value(self).cell
        }
    }

    /// The names of all fields with their texts.
    package var facts: [(name: String, text: String)] {
        Self.fields.map { ($0.name.description, $0.value(self).cell) }
    }
}

/// A declared resource, independent of its row type.
package struct Resource: Sendable {
    /// The name of its schema in the API's description.
    package let schema: String
    /// Who may see each of its members.
    package let members: [String: Secrecy]
    /// Its JSON Schema; nil if it is written by hand.
    package let description: String?

    /// Declares a resource by its described fields.
    package init<Row: ShownResource>(_: Row.Type) {
        schema = Row.schema
        members = Dictionary(Row.fields.map { ($0.name.description, $0.secrecy) }) { first, _ in first }
        description = Self.description(of: Row.self)
    }

    /// Declares a resource described elsewhere.
    package init(_ schema: String, _ members: [String: Secrecy]) {
        (self.schema, self.members, description) = (schema, members, nil)
    }

    /// Declares a resource described elsewhere whose members everybody may see.
    package init(plain schema: String, _ names: String...) {
        self.init(schema, Dictionary(names.map { ($0, .plain) }) { first, _ in first })
    }

    private static func description<Row: ShownResource>(of _: Row.Type) -> String {
        var json = JSONWriter()
        json.beginObject()
        json.member("type", "object")
        if let about = Row.about { json.member("description", about.description) }
        json.name("required")
        json.beginArray()
        for field in Row.fields where !Row.leavesOut || !field.schema.isNullable { json.string(field.name.description) }
        json.endArray()
        json.name("properties")
        json.beginObject()
        for field in Row.fields {
            json.name(field.name)
            var schema = field.schema
            if Row.leavesOut { schema.isNullable = false }
            schema.write(to: &json, about: field.about)
        }
        json.endObject()
        json.name("additionalProperties")
        json.bool(false)
        json.endObject()
        return String(decoding: json.finish(), as: UTF8.self)
    }

    /// The schema of a page of rows.
    package static func page(of schema: String) -> String {
        """
        {"type":"object","required":["items","next"],"properties":{"items":{"type":"array",
        "items":{"$ref":"#/components/schemas/\(schema)"}},"next":{"type":["string","null"]}},"additionalProperties":false}
        """
    }
}
