/// A column of a terminal's table, and how it shrinks where there is little room.
package struct TableColumn: Sendable, ExpressibleByStringLiteral {
    /// Which part of a text that is too long is left out.
    package enum Cut: Sendable {
        /// The end.
        case end
        /// The middle: ids and categories differ at their ends.
        case middle
        /// The end, without a mark: what is left can be used as it is.
        case prefix
    }

    /// The header.
    package var title: String
    /// What `--columns` and the head of CSV call it: the member of the row's JSON object.
    package var name: String
    /// It is not cut below this many columns of the terminal.
    package var minimum: Int
    /// Where even the minimums don't fit, the column with the greatest number is left out first; 0 always stays.
    package var dropOrder: Int
    /// How a text that is too long is cut.
    package var cut: Cut
    /// Whether it is shown only where `--columns` names it.
    package var isExtra = false
    /// Whether its cells are states, which have a colour on a terminal.
    package var isState = false

    package init(
        _ title: String,
        name: String? = nil,
        minimum: Int = .max,
        dropOrder: Int = 0,
        cut: Cut = .end
    ) {
        (self.title, self.minimum, self.dropOrder, self.cut) = (title, minimum, dropOrder, cut)
        self.name = name ?? title.lowercased().replacing(" ", with: "_")
    }

    /// A column that is shown only where `--columns` names it.
    package static func extra(_ title: String, name: String? = nil, cut: Cut = .end) -> TableColumn {
        var column = TableColumn(title, name: name, minimum: 10, cut: cut)
        column.isExtra = true
        return column
    }

    /// The same column, of states.
    package var ofStates: TableColumn {
        var column = self
        column.isState = true
        return column
    }

    /// A column that is neither cut nor left out.
    package init(stringLiteral title: String) { self.init(title) }
}
