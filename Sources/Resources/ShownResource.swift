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

    /// The row's values, one for each column; nil for null.
    package var texts: [String?] { Self.fields.filter { $0.column != nil }.map { $0.value(self).text } }

    /// The names of all fields with their texts.
    package var facts: [(name: String, text: String)] {
        Self.fields.map { ($0.name.description, $0.value(self).cell) }
    }
}

/// A declared resource, independent of its row type.
package struct Resource: Sendable {
    /// A member of its objects.
    package struct Member: Sendable {
        let name: String
        let secrecy: Secrecy
        /// Its JSON Schema.
        let schema: String
        /// Whether every object has it.
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

        /// A member that is a resource.
        package static func one(
            _ name: String,
            _ resource: String,
            _ secrecy: Secrecy = .plain,
            isRequired: Bool = true,
            orNull: Bool = false
        ) -> Member {
            let reference = ##"{"$ref":"#/components/schemas/\##(resource)"}"##
            let schema = orNull ? #"{"oneOf":[\#(reference),{"type":"null"}]}"# : reference
            return Member(name, schema, secrecy, isRequired: isRequired)
        }

        /// A member that is an array of a resource.
        package static func list(_ name: String, of resource: String, _ secrecy: Secrecy = .plain) -> Member {
            let schema = ##"{"type":"array","items":{"$ref":"#/components/schemas/\##(resource)"}}"##
            return Member(name, schema, secrecy, isRequired: true)
        }

        /// A member of one of some words, or of any type.
        package static func any(_ name: String, _ words: String..., secrecy: Secrecy = .plain) -> Member {
            let list = words.map { "\"\($0)\"" }.joined(separator: ",")
            return Member(name, words.isEmpty ? "{}" : "{\"enum\":[\(list)]}", secrecy, isRequired: false)
        }

        /// The same where an object may lack it.
        package var optional: Member { Member(name, schema, secrecy, isRequired: false) }
    }

    /// The name of its schema in the API's description.
    package let schema: String
    /// Who may see each of its members.
    package let members: [String: Secrecy]
    /// Its JSON Schema.
    package let description: String

    /// Declares a resource by its described fields.
    package init<Row: ShownResource>(_: Row.Type) {
        let members = Row.fields.map { field in
            var schema = field.schema
            let isRequired = !Row.leavesOut || !schema.isNullable
            if Row.leavesOut { schema.isNullable = false }
            return Member(
                field.name.description,
                schema.json(about: field.about),
                field.secrecy,
                isRequired: isRequired
            )
        }
        self.init(Row.schema, about: Row.about?.description, members)
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
