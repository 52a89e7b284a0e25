import Resources
import UpstreamKit
import Vocabulary

/// A column of a page's table, or one of its facts: a resource's field by its name, or something of the page's own.
struct PageColumn<Row: ShownResource>: ExpressibleByStringLiteral {
    let column: Column
    let cell: (Row, Timestamp) -> HTML

    init(stringLiteral name: String) { self.init(name) }

    /// A field; a title and a cell replace its label and its value, and `absent` stands for null.
    init(_ name: String, title: String? = nil, absent: String = "–", cell: ((Row) -> HTML)? = nil) {
        guard let field = Row.fields.first(where: { $0.name.description == name }) else {
            preconditionFailure("\(Row.schema) has no field '\(name)'")
        }
        column = Column(title ?? field.label, isNumber: field.schema.isNumber, name: name)
        self.cell = { row, now in
            cell?(row) ?? Part.value(field.value(row), field.look, now: now)
                ?? "<span class=\"muted\">\(absent)</span>"
        }
    }

    /// Something of the page's own.
    init(_ column: Column, _ cell: @escaping (Row) -> HTML) {
        self.column = column
        self.cell = { row, _ in cell(row) }
    }

    /// Buttons or a link, with a heading for screen readers alone.
    static func actions(_ title: String = "Actions", cell: @escaping (Row) -> HTML) -> PageColumn {
        PageColumn(Column(title, isHidden: true), cell)
    }
}

extension Part {
    /// A table of a resource's rows.
    static func table<Row>(
        _ caption: String,
        _ rows: [Row],
        now: Timestamp,
        _ columns: [PageColumn<Row>],
        id: String? = nil
    ) -> HTML {
        table(caption, columns.map(\.column), rows.map { row in columns.map { $0.cell(row, now) } }, id: id)
    }

    /// A row's facts.
    static func facts<Row>(_ row: Row, now: Timestamp, _ columns: [PageColumn<Row>]) -> [(String, HTML)] {
        columns.map { ($0.column.title, $0.cell(row, now)) }
    }

    /// A field's value; nil for null.
    static func value(_ value: any ShownValue, _ look: FieldLook, now: Timestamp) -> HTML? {
        switch value {
        case let time as Timestamp:
            let age = age(time, now: now)
            return look == .moment ? "\(Part.time(time))<span class=\"sub\">\(age)</span>" : age
        case let key as MessageKey: return Part.key("\(key)", PageAddress("/messages").adding("\(key)"))
        case let device as DeviceKey:
            return Part.key("\(device)", PageAddress("/messages").query("device", "\(device)"))
        case let number as Int: return "\(Figures.count(number))"
        case let number as Int64: return "\(Figures.count(number))"
        case let number as Double: return "\(Figures.decimal(number))"
        case let names as [String]: return "<span class=\"tags\">\(HTML(names) { text($0, .tag) })</span>"
        default: return value.text.map { text($0, look) }
        }
    }

    private static func text(_ text: String, _ look: FieldLook) -> HTML {
        let short = text.shortened(300)
        return switch look {
        case .tag: "<span class=\"tag\">\(stranger: short)</span>"
        case .code: "<span class=\"mono\">\(stranger: short)</span>"
        case .plain, .moment: "\(stranger: short)"
        }
    }
}
