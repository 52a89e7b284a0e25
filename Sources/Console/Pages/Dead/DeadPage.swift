import Hummingbird
import MessageStore
import Postgres
import Querying
import Resources
import UpstreamKit
import Vocabulary

/// Dead letters by group and one by one, with bulk retry and discard.
struct DeadPage: ConsoleRoutes {
    private static let pageSize = 50

    let services: ConsoleServices

    func add(to router: RouterGroup<ConsoleContext>) {
        router.page("dead") { [self] request in try await page(request) }
    }

    private func page(_ request: PageRequest) async throws -> HTML {
        var filter = DeadLetterFilter()
        filter.handler = request.query["handler"]
        filter.group = request.query["group"]
        filter.category = request.query["category"]
        let sight = services.settings.sight
        guard sight.mayName(group: filter.group) else { throw Problem.groupHidden }
        let cursor = request.query["cursor"].flatMap { DeadLetterCursor($0) }
        let (groups, letters, now) = try await services.reader.withConnection(.search) { [filter] connection in
            let table = DeadLetters(connection)
            return (
                try await table.summary(handler: filter.handler),
                try await table.list(filter, after: cursor, limit: Self.pageSize).shown(to: sight, connection),
                try await MessageTail.now(connection)
            )
        }
        let view = View(filter: filter, cursor: cursor, now: now, mayAct: request.mayAct, sight: sight)
        return PageShell("Dead letters", .dead, for: request).document(
            """
            \(Part.head("Dead letters", "Deliveries that were given up. They keep their messages until retried, discarded or too old."))
            <div id="dead-groups" data-live>\(view.groups(groups))</div>
            <div id="dead-letters" data-live>\(view.letters(letters, isFull: letters.count == Self.pageSize))</div>
            """
        )
    }

    private struct View {
        var filter: DeadLetterFilter
        var cursor: DeadLetterCursor?
        var now: Timestamp
        var mayAct: Bool
        var sight: Sight

        func groups(_ groups: [DeadLetterGroup]) -> HTML {
            guard !groups.isEmpty else {
                return Part.card(
                    "By group",
                    Part.empty(
                        "No dead letters",
                        "A delivery comes here after its last attempt (<code>retry.max_attempts</code>), or when its handler rejects it."
                    )
                )
            }
            let columns = [
                Column("Handler"), Column("Failed with"), Column("Count", isNumber: true), Column("First died"),
                Column("Last died"),
                Column("Actions", isHidden: true),
            ]
            let rows = groups.enumerated().map { number, group -> [HTML] in
                let group = group.shown(to: sight)
                let address = PageAddress("/dead").query("handler", group.handler).query("group", group.nameInFilters)
                return [
                    "\(group.handler)",
                    "<a class=\"mono\" href=\"\(address)\">\(stranger: group.group.shortened(160))</a>",
                    "\(Figures.count(group.count))", Part.age(group.first, now: now), Part.age(group.last, now: now),
                    mayAct && group.nameInFilters != nil
                        ? actions(
                            "group-\(number)",
                            [("filter.handler", group.handler), ("filter.group", group.group)]
                        ) : "",
                ]
            }
            return Part.card(
                "By group",
                count: Figures.count(groups.count),
                Part.table("Groups of dead letters", columns, rows)
            )
        }

        private func actions(_ id: String, _ fields: [(String, String)]) -> HTML {
            """
            <div class="actions">\(Act.dialog(
                "\(id)-retry", "Retry", "/api/v1/dead/retry", done: "Queued again", steps: "frozen", fields: fields,
                "<p>They are queued again, with all attempts before them. First see how many there are.</p>\(Act.reason("\(id)-retry"))"
            ))\(Act.dialog(
                "\(id)-discard", "Discard", "/api/v1/dead/discard", done: "Discarded", kind: .danger, steps: "frozen", fields: fields,
                "<p>The deliveries are deleted for good; the messages themselves stay. First see how many there are.</p>\(Act.reason("\(id)-discard"))"
            ))</div>
            """
        }

        func letters(_ letters: [DeadLetter], isFull: Bool) -> HTML {
            guard !letters.isEmpty || isNarrowed else { return "" }
            let columns = [
                Column("Died"), Column("Handler"), Column("Message"), Column("Category"),
                Column("Attempts", isNumber: true), Column("Error"),
            ]
            let rows = letters.map { letter -> [HTML] in
                [
                    Part.age(letter.diedAt, now: now), "\(letter.handler)",
                    Part.key("\(letter.messageKey)", PageAddress("/messages").adding("\(letter.messageKey)")),
                    letter.category.map { "<span class=\"tag\">\(stranger: $0)</span>" }
                        ?? "<span class=\"muted\">gone</span>",
                    "\(Figures.count(letter.attempts))",
                    "<span class=\"mono\">\(stranger: letter.error.shortened(300))</span>",
                ]
            }
            var fields: [(String, String)] = []
            if let handler = filter.handler { fields.append(("filter.handler", handler)) }
            if let group = filter.group { fields.append(("filter.group", group)) }
            if let category = filter.category { fields.append(("filter.category", category)) }
            let tools: HTML = """
                <div class="actions">\(HTML.when(isNarrowed, "<a class=\"button small ghost\" href=\"/dead\">Show all</a>"))\
                \(mayAct && isNarrowed && !letters.isEmpty ? actions("these", fields) : "")</div>
                """
            let body =
                rows.isEmpty
                ? Part.empty(
                    "None left here",
                    "They were retried or discarded. <a href=\"/dead\">Show all dead letters</a>."
                )
                : Part.table("Dead letters", columns, rows) + pager(isFull ? letters.last : nil)
            return Part.card(
                isNarrowed ? "Chosen" : "Latest",
                count: Figures.count(letters.count),
                actions: tools,
                body
            )
        }

        private func pager(_ last: DeadLetter?) -> HTML {
            let base = PageAddress("/dead").query("handler", filter.handler).query("group", filter.group)
                .query("category", filter.category)
            return Part.pager(
                first: cursor == nil ? nil : base,
                next: last.map { base.query("cursor", "\($0.cursor)") }
            )
        }

        private var isNarrowed: Bool { filter.handler != nil || filter.group != nil || filter.category != nil }
    }
}
