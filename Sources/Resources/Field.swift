package import Querying

/// A named field of a row, as shown by commands, the API, its description, and pages.
package struct Field<Row>: Sendable {
    /// The member of JSON objects and the column of CSV.
    package let name: StaticString
    /// Who may see it.
    package let secrecy: Secrecy
    /// Its meaning, if the name does not say it.
    package let about: StaticString?
    /// Its column in a terminal's table; nil for none.
    package let column: TableColumn?
    package let schema: ValueSchema
    package let value: @Sendable (Row) -> any ShownValue
    /// A table's text instead of the value.
    package let cell: (@Sendable (Row) -> String)?
    /// Redacts it in a row; nil for what is shown as it is.
    package let redact: (@Sendable (inout Row, Sight, [String]) -> Void)?

    /// Describes a field; one with `redact` has the secrecy payload.
    package init<Value: ShownValue>(
        _ name: StaticString,
        _ column: TableColumn? = nil,
        about: StaticString? = nil,
        secrecy: Secrecy = .payload,
        _ value: @escaping @Sendable (Row) -> Value,
        cell: (@Sendable (Row) -> String)? = nil,
        redact: (@Sendable (inout Row, Sight, [String]) -> Void)? = nil
    ) {
        self.name = name
        self.about = about
        self.value = value
        self.cell = cell
        self.redact = redact
        self.secrecy = redact == nil ? .plain : secrecy
        schema = Value.schema
        var column = column
        column?.name = name.description
        self.column = column
    }

    private init(
        name: StaticString,
        secrecy: Secrecy,
        about: StaticString?,
        column: TableColumn?,
        schema: ValueSchema,
        value: @escaping @Sendable (Row) -> any ShownValue,
        cell: (@Sendable (Row) -> String)?,
        redact: (@Sendable (inout Row, Sight, [String]) -> Void)?
    ) {
        (self.name, self.secrecy, self.about, self.column) = (name, secrecy, about, column)
        (self.schema, self.value, self.cell, self.redact) = (schema, value, cell, redact)
    }

    /// The same field in a row that contains this one.
    package func lifted<Outer>(_ path: any WritableKeyPath<Outer, Row> & Sendable) -> Field<Outer> {
        let (value, cell, redact) = (value, cell, redact)
        let outerCell: (@Sendable (Outer) -> String)? = cell.map { cell in
            { @Sendable (row: Outer) in cell(row[keyPath: path]) }
        }
        let outerRedact: (@Sendable (inout Outer, Sight, [String]) -> Void)? = redact.map { redact in
            { @Sendable (row: inout Outer, sight: Sight, tokens: [String]) in
                redact(&row[keyPath: path], sight, tokens)
            }
        }
        return Field<Outer>(
            name: name,
            secrecy: secrecy,
            about: about,
            column: column,
            schema: schema,
            value: { value($0[keyPath: path]) },
            cell: outerCell,
            redact: outerRedact
        )
    }

    /// A text by a handler about a message.
    package static func words<Value: HandlerText>(
        _ name: StaticString,
        _ path: any WritableKeyPath<Row, Value> & Sendable,
        _ column: TableColumn? = nil
    ) -> Field {
        Field(name, column) {
            $0[keyPath: path]
        } redact: { row, sight, tokens in
            row[keyPath: path] = row[keyPath: path].mapText { sight.words($0, tokens) }
        }
    }

    /// A group of failures.
    package static func group<Value: HandlerText>(
        _ name: StaticString,
        _ path: any WritableKeyPath<Row, Value> & Sendable,
        _ column: TableColumn? = nil,
        cell: (@Sendable (Row) -> String)? = nil
    ) -> Field {
        Field(
            name,
            column,
            { $0[keyPath: path] },
            cell: cell,
            redact: { row, sight, tokens in
                row[keyPath: path] = row[keyPath: path].mapText { sight.group($0, tokens) }
            }
        )
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
