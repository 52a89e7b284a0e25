import Hummingbird
import MessageStore
import Postgres
import Querying
import Resources
import Vocabulary

/// Dead letters by group and one by one, with bulk retry and discard.
struct DeadPage: ConsoleRoutes {
    private static let pageSize = 50

    let services: ConsoleServices

    func add(to router: RouterGroup<ConsoleContext>) {
        router.page("dead") { [self] request in try await page(request) }
    }

    private func page(_ request: PageRequest) async throws -> HTML {
        let sight = services.settings.sight
        let list = try PageList<DeadLetterFilter, DeadLetterCursor>(
            request,
            at: "/dead",
            sight: sight,
            DeadLetterCursor.init
        )
        let (groups, letters, now) = try await services.reader.withConnection(.search) { connection in
            let now = try await connection.databaseTime()
            let table = DeadLetters(connection)
            let groups = try await table.summary(handler: list.asked.filter.handler)
            guard list.asked.mistakes.isEmpty else { return (groups, [DeadLetter](), now) }
            let filter = try list.asked.judged(now: now)
            let letters = try await table.list(filter, after: list.cursor, limit: Self.pageSize)
            return (groups, try await letters.shown(to: sight, connection), now)
        }
        let view = View(list: list, now: now, mayAct: request.mayAct, sight: sight)
        return PageShell("Dead letters", .dead, for: request).document(
            """
            \(Part.head("Dead letters", "Deliveries that were given up. They keep their messages until retried, discarded or too old."))
            <div id="dead-groups" data-live>\(view.groups(groups))</div>
            <section class="card">\(list.form)</section>
            <div id="dead-letters" data-live>\(list.unreadable ?? view.letters(letters, isFull: letters.count == Self.pageSize))</div>
            """
        )
    }

    private struct View {
        var list: PageList<DeadLetterFilter, DeadLetterCursor>
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
            let shown = groups.map { $0.shown(to: sight) }
            let columns: [PageColumn<DeadLetterGroup>] = [
                "handler",
                PageColumn("error_group") { group in
                    let address = PageAddress("/dead").query("handler", group.handler)
                        .query("group", group.nameInFilters)
                    return "<a class=\"mono\" href=\"\(address)\">\(stranger: group.group.shortened(160))</a>"
                },
                "count", "first_died_at", "last_died_at",
                .actions { group in
                    guard mayAct, let name = group.nameInFilters else { return "" }
                    let number = shown.firstIndex { $0.handler == group.handler && $0.group == name } ?? 0
                    return actions("group-\(number)", [("filter.handler", group.handler), ("filter.group", name)])
                },
            ]
            return Part.card(
                "By group",
                count: Figures.count(groups.count),
                Part.table("Groups of dead letters", shown, now: now, columns)
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
            guard !letters.isEmpty || !list.isEmpty else { return "" }
            let tools: HTML =
                mayAct && !list.isEmpty && !letters.isEmpty ? actions("these", list.members) : ""
            let body =
                letters.isEmpty
                ? Part.empty(
                    "None left here",
                    "They were retried or discarded. <a href=\"/dead\">Show all dead letters</a>."
                )
                : Part.table(
                    "Dead letters",
                    letters,
                    now: now,
                    [
                        "died_at", "handler", "message_key", PageColumn("category", absent: "gone"), "attempts",
                        "error",
                    ]
                ) + list.pager(next: isFull ? letters.last?.cursor : nil)
            return Part.card(
                list.isEmpty ? "Latest" : "Chosen",
                count: Figures.count(letters.count),
                actions: tools,
                body
            )
        }
    }
}
