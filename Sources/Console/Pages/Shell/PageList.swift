import Postgres
import Resources
import Vocabulary

/// What a page shows of a list: what its filter selects, from a place on.
struct PageList<Filter: Filtered, Row: ShownResource, Cursor: LosslessStringConvertible & Sendable>: Sendable {
    /// The rows of a page.
    private static var size: Int { 50 }

    /// What is asked for, with its mistakes.
    let asked: Asked<Filter>
    /// Its address without filter and place.
    let base: PageAddress
    let isFirstPage: Bool
    let rows: [Row]
    /// Where the next page begins; nil if there is none.
    let next: String?
    /// How far back an unfinished search came.
    let searchedTo: Timestamp?
    /// Whether a statement took longer than it may, so that no row is known.
    let isTimedOut: Bool
    let now: Timestamp

    /// Reads the rows that a page's parameters ask for, and something else in the same session.
    ///
    /// - Throws: A ``Problem``: a place that is none, or what may not be looked for.
    static func read<More: Sendable>(
        _ request: PageRequest,
        _ listing: Listing<Filter, Row, Cursor>,
        _ values: [String: [String]]? = nil,
        _ more: @Sendable (PostgresConnection, Filter) async throws -> More
    ) async throws -> (list: PageList, more: More) {
        let services = request.services
        let (values, base) = (values ?? request.query.values, listing.address)
        let asked = Asked<Filter>(lenient: values, sight: request.reach)
        for mistake in asked.mistakes { if case .groupHidden = mistake { throw Problem(mistake) } }
        let after = request.query["after"]
        let cursor = after.flatMap { Cursor($0) }
        guard after == nil || cursor != nil else {
            throw Problem.badRequest("'after' is no position: begin at \(base.text)")
        }
        return try await services.reader.withConnection(listing.use) { connection in
            let now = try await connection.databaseTime()
            let found = try await more(connection, asked.filter)
            var (page, isTimedOut) = (Listing<Filter, Row, Cursor>.Page(), false)
            do {
                if asked.mistakes.isEmpty {
                    page = try await listing.read(.init(services, connection, asked.judged(now: now), cursor, size))
                }
            } catch let error as PostgresError where error.failureClass == .timeout {
                isTimedOut = true
            }
            let list = PageList(
                asked: asked,
                base: base,
                isFirstPage: cursor == nil,
                rows: page.rows,
                next: page.next,
                searchedTo: page.searchedTo,
                isTimedOut: isTimedOut,
                now: now
            )
            return (list, found)
        }
    }

    var isEmpty: Bool { asked.isEmpty }

    /// The address of another page with the same filter.
    func address(_ base: PageAddress) -> PageAddress {
        Filter.filters.reduce(base) { $0.query($1.name, asked[$1]) }
    }

    /// The rows, or why there are none: the filter can't be read, selects nothing, or nothing is there.
    func table(
        _ caption: String,
        _ columns: [PageColumn<Row>],
        _ title: String,
        _ hint: HTML,
        id: String? = nil
    ) -> HTML {
        guard asked.mistakes.isEmpty else {
            return Part.empty("The filter can't be read", "Correct the field that is marked.")
        }
        guard !isTimedOut else {
            let hint: HTML = "Narrow it: a category, a device, a shorter time. Nothing else is wrong."
            return Part.empty("The search took too long", hint)
        }
        if let searchedTo {
            let found = Part.table(caption, rows, now: now, columns, id: id)
            return "\(HTML.when(!rows.isEmpty, found))\(unfinished(searchedTo))"
        }
        guard rows.isEmpty else { return Part.table(caption, rows, now: now, columns, id: id) }
        return isEmpty && isFirstPage
            ? Part.empty(title, hint) : Part.empty("Nothing matches", "<a href=\"\(base)\">Show all</a>.")
    }

    private func unfinished(_ place: Timestamp) -> HTML {
        let further: HTML = next.map { "<a href=\"\(address(base).query("after", $0))\">Go on from here</a>" } ?? ""
        return """
            <div class="body">\(Part.notice(.warning, "Searched back to \(Part.time(place)) so far; older ones were not looked at. \(further)"))</div>
            """
    }

    /// The links to the first page, and to the next where there is one.
    var pager: HTML {
        let first = address(base)
        return Part.pager(
            first: isFirstPage ? nil : first,
            next: searchedTo == nil ? next.map { first.query("after", $0) } : nil
        )
    }

    /// The form that narrows the list, as a card.
    var form: HTML {
        """
        <section class="card"><form class="filter" action="\(base)" method="get" role="search">\(FilterForm.fields(asked))
        <div class="actions"><button class="primary">Search</button>\
        \(HTML.when(!isEmpty, "<a class=\"button ghost\" href=\"\(base)\">Clear</a>"))</div></form></section>
        """
    }

    /// The whole page: head, form, and `rows` with the links to others.
    func document(
        _ request: PageRequest,
        _ title: String,
        head: String? = nil,
        _ lead: HTML,
        actions: HTML = "",
        refresh: Int? = nil,
        find: String = "",
        _ rows: HTML
    ) -> HTML {
        request.document(
            title,
            refresh: refresh,
            find: find,
            """
            \(Part.head(head ?? title, lead, actions: actions))
            \(form)
            <section class="card">\(rows)\(pager)</section>
            """
        )
    }

    /// The filter as the members of a body.
    var members: [(String, String)] {
        Filter.filters.flatMap { field in asked[field].map { ("filter.\(field.name)", $0) } }
    }
}

extension PageList {
    /// Reads the rows that a page's parameters ask for.
    ///
    /// `values` replace what the address holds of the filter.
    init(
        _ request: PageRequest,
        _ listing: Listing<Filter, Row, Cursor>,
        _ values: [String: [String]]? = nil
    ) async throws {
        self = try await Self.read(request, listing, values) { _, _ in }.list
    }
}
