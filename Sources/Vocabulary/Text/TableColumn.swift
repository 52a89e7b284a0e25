/// A column of a terminal's table, and how it shrinks when space is short.
package struct TableColumn: Sendable, ExpressibleByStringLiteral {
    /// The part that is cut from a long text.
    package enum Cut: Sendable {
        case end
        /// Ids and categories differ at their ends.
        case middle
        /// The end, without a mark: the rest can be used as it is.
        case prefix
    }

    package var title: String
    /// Its name in `--columns` and in CSV's header row: the member of the JSON object.
    package var name: String
    /// The least width, in terminal columns.
    package var minimum: Int
    /// If even the minimums don't fit, columns with the greatest number are left out first; 0 always stays.
    package var dropOrder: Int
    package var cut: Cut
    /// Whether it is shown only on request by `--columns`.
    package var isExtra = false
    /// Whether its cells are states, which are coloured on a terminal.
    package var isState = false

    package init(_ title: String, name: String? = nil, minimum: Int = .max, dropOrder: Int = 0, cut: Cut = .end) {
        (self.title, self.minimum, self.dropOrder, self.cut) = (title, minimum, dropOrder, cut)
        self.name = name ?? title.lowercased().replacing(" ", with: "_")
    }

    /// A column that is shown only on request by `--columns`.
    package static func extra(_ title: String, name: String? = nil, cut: Cut = .end) -> TableColumn {
        var column = TableColumn(title, name: name, minimum: 10, cut: cut)
        column.isExtra = true
        return column
    }

    package var ofStates: TableColumn {
        var column = self
        column.isState = true
        return column
    }

    /// A column that is neither cut nor left out.
    package init(stringLiteral title: String) { self.init(title) }
}

/// How a page draws a field's value.
package enum FieldLook: Sendable {
    /// As its type suggests: text, a number, an age, the start of a key.
    case plain
    /// A name out of some that are known.
    case tag
    /// Text of machines.
    case code
    /// A time with its age.
    case moment
}
