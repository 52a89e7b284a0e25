import Resources
import UpstreamKit
import Vocabulary

/// A column of a page's table, or one of its facts: a resource's field by its name, or something of the page's own.
struct PageColumn<Row: ShownResource>: ExpressibleByStringLiteral {
    let title: String
    /// The field's name, for scripts; empty for none.
    var name = ""
    /// Whether it holds numbers, aligned right.
    var isNumber = false
    /// Whether only screen readers get its heading, as for buttons.
    var isHidden = false
    /// The list's address in the order of this column; nil where it can't be sorted by it.
    var link: PageAddress?
    /// Whether the list is in this order.
    var isSorted = false
    let cell: (Row, Timestamp) -> HTML

    init(stringLiteral name: String) { self.init(name) }

    /// A field; a title and a cell replace its label and its value, and `absent` stands for null.
    init(_ name: String, title: String? = nil, absent: String = "–", cell: ((Row) -> HTML?)? = nil) {
        guard let field = Row.fields.first(where: { $0.name.description == name }) else {
            preconditionFailure("\(Row.schema) has no field '\(name)'")
        }
        (self.title, self.name, isNumber) = (title ?? field.label, name, field.schema.isNumber)
        self.cell = { row, now in
            cell?(row) ?? Part.value(field.value(row), field.look, now: now)
                ?? "<span class=\"muted\">\(absent)</span>"
        }
    }

    /// Something of the page's own.
    init(title: String, isHidden: Bool = false, _ cell: @escaping (Row) -> HTML) {
        (self.title, self.isHidden) = (title, isHidden)
        self.cell = { row, _ in cell(row) }
    }

    /// Buttons or a link, with a heading for screen readers alone.
    static func actions(_ title: String = "Actions", cell: @escaping (Row) -> HTML) -> PageColumn {
        PageColumn(title: title, isHidden: true, cell)
    }

    /// A box that chooses a row for the dialogs that act on chosen ones, as this member of their bodies.
    static func choice(_ member: HTML, value: @escaping (Row) -> String) -> PageColumn {
        actions("Choose") { row in
            let value = value(row)
            return """
                <input type="checkbox" class="needs-script" name="\(member)" value="\(exact: value)" data-choose \
                aria-label="Choose \(String(value.prefix(8)))">
                """
        }
    }

    private var style: HTML { isNumber ? #" class="num""# : "" }

    /// Its heading; with its name where scripts make rows.
    fileprivate func head(isNamed: Bool) -> HTML {
        let text: HTML = isHidden ? "<span class=\"unseen\">\(title)</span>" : "\(title)"
        let linked: HTML = link.map { "<a href=\"\($0)\">\(text)</a>" } ?? text
        let order: HTML = isSorted ? " aria-sort=\"descending\"" : ""
        return "<th scope=\"col\"\(style)\(order)\(HTML.when(isNamed, " data-field=\"\(name)\""))>\(linked)</th>"
    }

    /// A row's cell; on a narrow screen it shows its heading.
    fileprivate func cell(of row: Row, _ now: Timestamp) -> HTML {
        "<td\(style) data-label=\"\(isHidden ? "" : title)\">\(cell(row, now))</td>"
    }
}

extension Part {
    /// A table of a resource's rows, which scrolls by itself on a narrow screen, or stacks into cards; scripts find its
    /// body by `id`.
    static func table<Row>(
        _ caption: String,
        _ rows: [Row],
        now: Timestamp,
        _ columns: [PageColumn<Row>],
        id: String? = nil
    ) -> HTML {
        let heads = HTML(columns) { $0.head(isNamed: id != nil) }
        let body = HTML(rows) { row in "<tr>\(HTML(columns) { $0.cell(of: row, now) })</tr>" }
        let mark: HTML = id.map { #" id="\#($0)""# } ?? ""
        return """
            <div class="table" role="region" aria-label="\(caption)" tabindex="0"><table><caption class="unseen">\(caption)</caption>
            <thead><tr>\(heads)</tr></thead><tbody\(mark)>\(body)</tbody></table></div>
            """
    }

    /// A card with a table and the number of its rows, unless `count` says another; `empty` stands for no rows.
    static func rows<Row>(
        _ title: String,
        _ rows: [Row],
        now: Timestamp,
        caption: String? = nil,
        count: String? = nil,
        empty: (title: String, hint: HTML)? = nil,
        _ columns: [PageColumn<Row>]
    ) -> HTML {
        guard !rows.isEmpty else {
            return card(title, count: count, empty.map { Self.empty($0.title, $0.hint) } ?? "")
        }
        return card(title, count: count ?? Figures.count(rows.count), table(caption ?? title, rows, now: now, columns))
    }

    static func facts<Row>(_ row: Row, now: Timestamp, _ columns: [PageColumn<Row>]) -> [(String, HTML)] {
        columns.map { ($0.title, $0.cell(row, now)) }
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
        case let names as [String]: return tags(names)
        default: return value.text.map { text($0, look) }
        }
    }

    /// A link that a stranger's text names.
    static func link(_ address: PageAddress, _ text: String) -> HTML {
        "<a class=\"mono\" href=\"\(address)\">\(stranger: text)</a>"
    }

    static func tags(_ names: [String]) -> HTML {
        "<span class=\"tags\">\(HTML(names) { text($0, .tag) })</span>"
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
