package import Querying
package import Vocabulary

/// A named field of a row, as shown by commands, the API, its description, and pages.
package struct Field<Row>: Sendable {
    /// The member of JSON objects and the column of CSV.
    package let name: StaticString
    package let secrecy: Secrecy
    /// Its meaning, if the name does not say it.
    package let about: StaticString?
    /// Its heading in pages: that of a terminal's table, or the name, as a phrase.
    package let label: String
    package let look: FieldLook
    /// Its column in a terminal's table; nil for none.
    package private(set) var column: TableColumn?
    package private(set) var schema: ValueSchema
    package let value: @Sendable (Row) -> any ShownValue
    /// A table's text instead of the value.
    package let cell: (@Sendable (Row) -> String)?
    /// Redacts it in a row; nil for what is shown as it is.
    package let redact: (@Sendable (inout Row, Sight, [String]) -> Void)?
}

extension Field {
    /// Describes a field; one with `redact` has the secrecy payload.
    package init<Value: ShownValue>(
        _ name: StaticString,
        _ column: TableColumn? = nil,
        label: StaticString? = nil,
        look: FieldLook = .plain,
        about: StaticString? = nil,
        secrecy: Secrecy = .payload,
        isNullable: Bool? = nil,
        _ value: @escaping @Sendable (Row) -> Value,
        cell: (@Sendable (Row) -> String)? = nil,
        redact: (@Sendable (inout Row, Sight, [String]) -> Void)? = nil
    ) {
        var (schema, column) = (Value.schema, column)
        schema.isNullable = isNullable ?? schema.isNullable
        column?.name = name.description
        self.secrecy = redact == nil ? .plain : secrecy
        self.label = label?.description ?? Self.phrase(column?.title ?? name.description)
        (self.name, self.about, self.look, self.column, self.schema) = (name, about, look, column, schema)
        (self.value, self.cell, self.redact) = (value, cell, redact)
    }

    /// Describes a field whose value has another form in tables.
    package init<Value: ShownValue>(
        _ name: StaticString,
        _ column: TableColumn,
        as text: @escaping @Sendable (Value) -> String,
        _ value: @escaping @Sendable (Row) -> Value
    ) {
        self.init(name, column, value, cell: { text(value($0)) })
    }

    /// A heading or a name as a phrase: `LAST SEEN` and `last_seen` are `Last seen`.
    private static func phrase(_ text: String) -> String {
        let words = text.lowercased().replacing("_", with: " ")
        return words.prefix(1).uppercased() + words.dropFirst()
    }

    /// The same field in a row that contains this one.
    package func lifted<Outer>(_ path: any WritableKeyPath<Outer, Row> & Sendable) -> Field<Outer> {
        lifted({ $0[keyPath: path] }, { $0[keyPath: path] = $1 })
    }

    /// The same field in a row that may contain this one; null where it does not.
    package func lifted<Outer>(_ path: any WritableKeyPath<Outer, Row?> & Sendable) -> Field<Outer> {
        var field: Field<Outer> = lifted({ $0[keyPath: path] }, { $0[keyPath: path] = $1 })
        field.schema.isNullable = true
        return field
    }

    private func lifted<Outer>(
        _ get: @escaping @Sendable (Outer) -> Row?,
        _ set: @escaping @Sendable (inout Outer, Row) -> Void
    ) -> Field<Outer> {
        let (value, cell, redact) = (value, cell, redact)
        return Field<Outer>(
            name: name,
            secrecy: secrecy,
            about: about,
            label: label,
            look: look,
            column: column,
            schema: schema,
            value: { outer in
                guard let row = get(outer) else { return String?.none }
                return value(row)
            },
            cell: cell.map { cell in { @Sendable (outer: Outer) in get(outer).map(cell) ?? "-" } },
            redact: redact.map { redact in
                { @Sendable (outer: inout Outer, sight: Sight, tokens: [String]) in
                    guard var row = get(outer) else { return }
                    redact(&row, sight, tokens)
                    set(&outer, row)
                }
            }
        )
    }

    /// The same field with a column that is shown only on request.
    var onRequest: Field {
        var field = self
        field.column?.isExtra = true
        field.column?.minimum = 10
        return field
    }

    /// The field's text in a terminal's table.
    package func tableCell(_ row: Row) -> String { cell?(row) ?? value(row).cell }

    /// A field of which some readers get another value.
    ///
    /// `change` is given the value, what the reader may see, and the message's tokens.
    package static func changed<Value: ShownValue>(
        _ name: StaticString,
        _ path: any WritableKeyPath<Row, Value> & Sendable,
        _ column: TableColumn? = nil,
        look: FieldLook = .plain,
        cell: (@Sendable (Row) -> String)? = nil,
        _ change: @escaping @Sendable (Value, Sight, [String]) -> Value
    ) -> Field {
        let redact: @Sendable (inout Row, Sight, [String]) -> Void = { row, sight, tokens in
            row[keyPath: path] = change(row[keyPath: path], sight, tokens)
        }
        return Field(name, column, look: look, { $0[keyPath: path] }, cell: cell, redact: redact)
    }

    /// Rows of another resource.
    package static func rows<Part: ShownResource>(
        _ name: StaticString,
        _ path: any WritableKeyPath<Row, [Part]> & Sendable
    ) -> Field {
        changed(name, path) { rows, sight, tokens in rows.map { $0.shown(to: sight, knowing: tokens) } }
    }

    /// A text by a handler about a message.
    package static func words<Value: HandlerText>(
        _ name: StaticString,
        _ path: any WritableKeyPath<Row, Value> & Sendable,
        _ column: TableColumn? = nil
    ) -> Field {
        changed(name, path, column, look: .code) { value, sight, tokens in value.mapText { sight.words($0, tokens) } }
    }

    package static func group<Value: HandlerText>(
        _ name: StaticString,
        _ path: any WritableKeyPath<Row, Value> & Sendable,
        _ column: TableColumn? = nil,
        cell: (@Sendable (Row) -> String)? = nil
    ) -> Field {
        changed(name, path, column, look: .code, cell: cell) { value, sight, tokens in
            value.mapText { sight.group($0, tokens) }
        }
    }
}

/// What a handler said, if it did.
package protocol HandlerText: ShownValue {
    /// The same with another text where there is one.
    func mapText(_ change: (String) -> String) -> Self
}

extension String: HandlerText {
    package func mapText(_ change: (String) -> String) -> String { change(self) }
}

extension Optional: HandlerText where Wrapped == String {
    package func mapText(_ change: (String) -> String) -> String? { map(change) }
}
