package import Querying
package import Vocabulary

/// A row with its fields, each described once.
package protocol ShownResource: ShownValue {
    /// Its name in the API's description.
    static var resource: String { get }
    /// Its meaning, for the API's description.
    static var about: StaticString? { get }
    /// Its fields, in the order of tables and JSON objects.
    static var fields: [Field<Self>] { get }
    /// Whether absent values are left out of the object instead of null.
    static var leavesOut: Bool { get }
    /// The fields that are null even so.
    static var keepsNull: [String] { get }
    /// The columns of a terminal's table, if not all in the fields' order; the others are shown on request.
    static var inTables: [String] { get }
}

extension ShownResource {
    package static var schema: ValueSchema { ValueSchema("object", resource: Self.self) }
    package static var about: StaticString? { nil }
    package static var leavesOut: Bool { false }
    package static var keepsNull: [String] { [] }
    package static var inTables: [String] { [] }

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
            if Self.mayLack(field), value.text == nil { continue }
            json.name(field.name)
            value.write(to: &json)
        }
    }

    package func write(to json: inout JSONWriter) {
        json.beginObject()
        writeMembers(to: &json)
        json.endObject()
    }

    /// The fields with a column in a terminal's table, in its order; secret ones only on request.
    package static func tabled(tokens: Bool = false) -> [Field<Self>] {
        let fields = fields.filter { $0.column != nil && (tokens || $0.secrecy != .secret) }
        guard !inTables.isEmpty else { return fields }
        let chosen = inTables.compactMap { name in fields.first { $0.name.description == name } }
        return chosen + fields.filter { !inTables.contains($0.name.description) }.map(\.onRequest)
    }

    package static var columns: [TableColumn] { tabled().compactMap(\.column) }

    package var cells: [String] { Self.tabled().map { $0.tableCell(self) } }

    /// The names of all fields with their texts.
    package var facts: [(name: String, text: String)] {
        Self.fields.map { ($0.name.description, $0.value(self).cell) }
    }

    private static func mayLack(_ field: Field<Self>) -> Bool {
        leavesOut && field.schema.isNullable && !keepsNull.contains(field.name.description)
    }

    /// The JSON Schema of its objects.
    package static var object: JSONObject {
        var (required, properties): ([String], JSONObject) = ([], [:])
        for field in fields {
            var schema = field.schema
            if mayLack(field) { schema.isNullable = false } else { required.append(field.name.description) }
            properties.add(field.name.description, schema.json(about: field.about))
        }
        var object: JSONObject = ["type": "object"]
        if let about { object.add("description", about.description) }
        object.add("required", required)
        object.add("properties", properties)
        object.add("additionalProperties", false)
        return object
    }

    /// The resources that its fields hold.
    package static var parts: [any ShownResource.Type] {
        fields.compactMap { $0.schema.resource ?? $0.schema.items?.schema.resource }
    }
}
