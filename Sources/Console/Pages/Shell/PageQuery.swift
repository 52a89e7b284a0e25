import Querying
import Resources

/// The parameters of a page's address, as a browser's form sends them: empty ones are left out.
struct PageQuery: Sendable {
    /// The values by name.
    let values: [String: [String]]

    /// Parses the part of an address after `?`.
    ///
    /// - Throws: A ``Problem`` with status 400.
    init(_ query: String) throws(Problem) {
        let pairs = try FormText.pairs(query).filter { !$0.value.isEmpty }
        values = Dictionary(grouping: pairs, by: \.name).mapValues { $0.map(\.value) }
        if let excess = FilterBounds.excess(in: values) { throw .badRequest(excess) }
    }

    /// The first value of a name; nil where it is missing or empty.
    subscript(_ name: String) -> String? { values[name]?.first }
}

/// What a page shows of a list: what its filter selects, from a place on.
struct PageList<Filter: Filtered, Cursor: Sendable>: Sendable {
    /// What is asked for, with its mistakes.
    let asked: Asked<Filter>
    /// Where the page before has ended; nil for the first page.
    let cursor: Cursor?
    /// Its address without filter and place.
    let base: PageAddress

    /// Reads a page's parameters.
    ///
    /// - Throws: A ``Problem``: a place that is none, or what may not be looked for.
    init(
        _ request: PageRequest,
        at base: PageAddress,
        sight: Sight,
        _ cursor: (String) -> Cursor?
    ) throws(Problem) {
        var sight = sight
        sight.tokens = request.principal.may(.reveal)
        self.base = base
        asked = Asked(lenient: request.query.values, sight: sight)
        for mistake in asked.mistakes { if case .groupHidden = mistake { throw Problem(mistake) } }
        let text = request.query["after"]
        self.cursor = text.flatMap(cursor)
        if text != nil, self.cursor == nil { throw .badRequest("'after' is no position: begin at \(base.text)") }
    }

    /// Whether nothing narrows.
    var isEmpty: Bool { asked.isEmpty }

    /// The address of another page with the same filter.
    func address(_ base: PageAddress) -> PageAddress {
        Filter.filters.reduce(base) { $0.query($1.name, asked[$1]) }
    }

    /// What stands for the rows where the filter can't be read.
    var unreadable: HTML? {
        asked.mistakes.isEmpty ? nil : Part.empty("The filter can't be read", "Correct the field that is marked.")
    }

    /// The links to the first page, and to the next where there is one.
    func pager(next: (some CustomStringConvertible)?) -> HTML {
        let first = address(base)
        return Part.pager(first: cursor == nil ? nil : first, next: next.map { first.query("after", "\($0)") })
    }

    /// The form that narrows the list.
    var form: HTML {
        """
        <form class="filter" action="\(base)" method="get" role="search">\(FilterForm.fields(asked))
        <div class="actions"><button class="primary">Search</button>\
        \(HTML.when(!isEmpty, "<a class=\"button ghost\" href=\"\(base)\">Clear</a>"))</div></form>
        """
    }

    /// The filter as the members of a body.
    var members: [(String, String)] {
        Filter.filters.flatMap { field in asked[field].map { ("filter.\(field.name)", $0) } }
    }
}

/// The fields of a filter in a form.
enum FilterForm {
    /// An input for each field; further values of one that may be repeated are sent along.
    ///
    /// - Parameters:
    ///   - asked: What is written in them, and what is wrong with it.
    ///   - prefix: What stands before the fields' names: of a body's member that holds them.
    ///   - hidden: The names of fields that are left out.
    /// - Returns: The fields.
    static func fields<Filter: Filtered>(
        _ asked: Asked<Filter>,
        prefix: StaticString = "",
        without hidden: Set<String> = []
    ) -> HTML {
        let mistakes = Dictionary(asked.mistakes.map { ($0.name, $0.text) }) { first, _ in first }
        return HTML(Filter.filters.filter { !hidden.contains($0.name.description) }) { field in
            let name = "\(prefix)\(field.name)"
            let mistake = mistakes[field.name.description]
            let error: HTML = mistake.map { "<p class=\"field-error\" id=\"\(name)-error\">\(exact: $0)</p>" } ?? ""
            let described: HTML = mistake == nil ? "" : " aria-invalid=\"true\" aria-describedby=\"\(name)-error\""
            let kind: HTML = field.isRepeatable && !name.isEmpty && !"\(prefix)".isEmpty ? " data-kind=\"list\"" : ""
            let more = HTML(asked[field].dropFirst()) { value in
                "<input type=\"hidden\" name=\"\(name)\" value=\"\(exact: value)\"\(kind)>"
            }
            return """
                <div\(HTML.when(field.kind == .clause, " class=\"wide\""))><label for="f-\(name)">\(field.label.description)</label>
                \(input(field, name, asked[field].first, kind + described))\(error)</div>\(more)
                """
        }
    }

    private static func input<Filter>(
        _ field: FilterField<Filter>,
        _ name: String,
        _ value: String?,
        _ more: HTML
    ) -> HTML {
        guard case .words(let words) = field.kind else {
            return """
                <input id="f-\(name)" name="\(name)" value="\(exact: value ?? "")" placeholder="\(field.hint.description)" dir="auto" \
                autocomplete="off" spellcheck="false"\(more)>
                """
        }
        let options = HTML(words) { word in
            "<option value=\"\(word)\"\(HTML.when(word == value, " selected"))>\(word)</option>"
        }
        return """
            <select id="f-\(name)" name="\(name)"\(more)><option value="">any</option>\(options)</select>
            """
    }
}
