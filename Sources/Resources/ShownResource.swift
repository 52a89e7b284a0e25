package import Querying
package import Vocabulary

/// A row with its fields, each described once.
package protocol ShownResource: Sendable {
    static var schema: String { get }
    /// Its meaning, for the API's description.
    static var about: StaticString? { get }
    /// Its fields, in the order of tables and JSON objects.
    static var fields: [Field<Self>] { get }
    /// Whether absent values are left out of the object instead of null.
    static var leavesOut: Bool { get }
    /// The columns of a terminal's table, if not all in the fields' order; the others are shown on request.
    static var inTables: [String] { get }
}

extension ShownResource {
    package static var about: StaticString? { nil }
    package static var leavesOut: Bool { false }
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
            if Self.leavesOut, field.schema.isNullable, value.text == nil { continue }
            json.name(field.name)
            value.write(to: &json)
        }
    }

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
}

/// A declared resource, independent of its row type.
package struct Resource: Sendable {
    /// A member of its objects.
    package struct Member: Sendable {
        package let name: String
        let secrecy: Secrecy
        let schema: String
        let isRequired: Bool

        fileprivate init(_ name: String, _ schema: String, _ secrecy: Secrecy, isRequired: Bool) {
            (self.name, self.schema, self.secrecy, self.isRequired) = (name, schema, secrecy, isRequired)
        }

        /// A member with a value of a type.
        package init<Value: ShownValue>(
            _ name: String,
            _: Value.Type,
            _ secrecy: Secrecy = .plain,
            isRequired: Bool = true
        ) {
            self.init(name, Value.schema.json(), secrecy, isRequired: isRequired)
        }

        /// The members of a described resource.
        package static func all<Row: ShownResource>(of _: Row.Type) -> [Member] {
            Row.fields.map { field in
                var schema = field.schema
                let isRequired = !Row.leavesOut || !schema.isNullable
                if Row.leavesOut { schema.isNullable = false }
                let json = schema.json(about: field.about)
                return Member(field.name.description, json, field.secrecy, isRequired: isRequired)
            }
        }
    }

    package let schema: String
    /// Who may see each of its members.
    package let members: [String: Secrecy]
    package let description: String

    /// Declares a resource by its described fields.
    package init<Row: ShownResource>(_: Row.Type) {
        self.init(Row.schema, about: Row.about?.description, Member.all(of: Row.self))
    }

    /// Declares a resource by its members.
    package init(_ schema: String, about: String? = nil, _ members: [Member]) {
        self.schema = schema
        self.members = Dictionary(members.map { ($0.name, $0.secrecy) }) { first, _ in first }
        var json = JSONWriter()
        json.beginObject()
        json.member("type", "object")
        if let about { json.member("description", about) }
        json.name("required")
        json.beginArray()
        for member in members where member.isRequired { json.string(member.name) }
        json.endArray()
        json.name("properties")
        json.beginObject()
        for member in members {
            json.name(escaping: member.name)
            json.json(Array(member.schema.utf8))
        }
        json.endObject()
        json.name("additionalProperties")
        json.bool(false)
        json.endObject()
        description = String(decoding: json.finish(), as: UTF8.self)
    }

    /// The schema of a page of rows.
    package static func page(of schema: String) -> String {
        """
        {"type":"object","required":["items","next"],"properties":{"items":{"type":"array",
        "items":{"$ref":"#/components/schemas/\(schema)"}},"next":{"type":["string","null"]}},"additionalProperties":false}
        """
    }
}
