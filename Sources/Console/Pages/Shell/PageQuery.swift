import Querying
import Resources

/// The parameters of a page's address, as a browser's form sends them: empty ones are left out.
struct PageQuery: Sendable {
    let values: [String: [String]]

    /// Parses the part of an address after `?`.
    init(_ query: String) throws(Problem) {
        let pairs = try FormText.pairs(query).filter { !$0.value.isEmpty }
        values = Dictionary(grouping: pairs, by: \.name).mapValues { $0.map(\.value) }
        if let excess = FilterBounds.excess(in: values) { throw .badRequest(excess) }
    }

    /// The address without the parameters that a form sent empty; nil where all have a value.
    static func shortened(_ address: String) -> String? {
        guard let mark = address.firstIndex(of: "?") else { return nil }
        let pairs = address[address.index(after: mark)...].split(separator: "&", omittingEmptySubsequences: false)
        let kept = pairs.filter { pair in
            guard let equals = pair.firstIndex(of: "=") else { return !pair.isEmpty }
            return pair.index(after: equals) < pair.endIndex
        }
        guard kept.count < pairs.count else { return nil }
        return address[..<mark] + (kept.isEmpty ? "" : "?" + kept.joined(separator: "&"))
    }

    /// The first value of a name; nil where it is missing or empty.
    subscript(_ name: String) -> String? { values[name]?.first }
}

/// The fields of a filter in a form.
enum FilterForm {
    /// An input for each field, with what is wrong with it; further values of a repeatable one are sent along.
    ///
    /// `prefix` names the body's member that holds the fields; those in `hidden` are left out.
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
            let kind: HTML = field.isRepeatable && prefix.utf8CodeUnitCount > 0 ? " data-kind=\"list\"" : ""
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
