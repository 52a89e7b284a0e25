import MessageStore
import Querying
import Resources
import Vocabulary

/// Dead letters by group and one by one, with bulk retry and discard.
enum DeadPage {
    static func page(_ request: PageRequest) async throws -> HTML {
        let (list, groups) = try await PageList.read(request, Lists.dead) { connection, filter in
            try await DeadLetters(connection).summary(handler: filter.handler)
                .map { $0.shown(to: request.services.sight) }
        }
        let tools = request.mayAct && !list.isEmpty && !list.rows.isEmpty ? actions("these", list.members) : ""
        let letters = list.table(
            "Dead letters",
            ["died_at", "handler", "message_key", PageColumn("category", absent: "gone"), "attempts", "error"],
            "No dead letters",
            ""
        )
        let title = list.isEmpty ? "Latest" : "Chosen"
        let card = Part.card(title, count: Figures.count(list.rows.count), actions: tools, letters + list.pager)
        let isShown = !list.rows.isEmpty || !list.isEmpty
        let lead: HTML =
            "Deliveries that were given up. They keep their messages until retried, discarded or too old."
        return request.document(
            "Dead letters",
            .dead,
            """
            \(Part.head("Dead letters", lead))
            <div id="dead-groups" data-live>\(Part.card(
                "By group", count: groups.isEmpty ? nil : Figures.count(groups.count), table(groups, list.now, request.mayAct)
            ))</div>
            \(list.form)
            <div id="dead-letters" data-live>\(HTML.when(isShown, card))</div>
            """
        )
    }

    private static func table(_ groups: [DeadLetterGroup], _ now: Timestamp, _ mayAct: Bool) -> HTML {
        guard !groups.isEmpty else {
            return Part.empty(
                "No dead letters",
                "A delivery comes here after its last attempt (<code>retry.max_attempts</code>), or when its handler rejects it."
            )
        }
        return Part.table(
            "Groups of dead letters",
            groups,
            now: now,
            [
                "handler",
                PageColumn("error_group") { group in
                    "<a class=\"mono\" href=\"\(group.address)\">\(stranger: group.group.shortened(160))</a>"
                },
                "count", "first_died_at", "last_died_at",
                .actions { group in
                    guard mayAct, let name = group.nameInFilters else { return "" }
                    let number = groups.firstIndex { $0.handler == group.handler && $0.group == name } ?? 0
                    return actions("group-\(number)", [("filter.handler", group.handler), ("filter.group", name)])
                },
            ]
        )
    }

    private static func actions(_ id: String, _ fields: [(String, String)]) -> HTML {
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
}

extension DeadLetterGroup {
    /// The group as a filter takes it; nil if it is not shown whole.
    var nameInFilters: String? { group.contains(Sight.hidden) || group.contains(TokenText.masked) ? nil : group }

    /// The address of its letters.
    var address: PageAddress { PageAddress("/dead").query("handler", handler).query("group", nameInFilters) }
}
