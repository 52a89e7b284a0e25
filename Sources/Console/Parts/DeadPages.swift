import MessageStore
import Querying
import Resources
import Vocabulary

/// The pages of dead letters: their groups, and the letters of one group or of another filter.
enum DeadPages {
    static func groups(_ request: PageRequest) async throws -> HTML {
        let (list, jobs) = try await PageList.read(request, DeadPart.groups) { connection, _ in
            try await JobPart.running(connection, request)
        }
        let table = list.table("Groups of dead letters", columns(list.asked.filter), "No dead letters", hint)
        let lead: HTML =
            "Deliveries that were given up. They keep their messages until retried, discarded or too old."
        let all: HTML = "<a class=\"button\" href=\"/dead/letters\">All letters</a>"
        return request.document(
            "Dead letters",
            refresh: jobs.isEmpty ? 30 : 2,
            """
            \(Part.head("Dead letters", lead, actions: all))
            <div id="dead-jobs" data-live>\(jobs)</div>
            \(list.form)
            <div id="dead-groups" data-live>\(Part.card("By group", table + list.pager))</div>
            """
        )
    }

    /// Some groups as a card of another page.
    static func card(_ groups: [DeadLetterGroup], _ now: Timestamp) -> HTML {
        let empty = (title: "No dead letters", hint: hint)
        return Part.rows(
            "By group",
            groups,
            now: now,
            caption: "Groups of dead letters",
            empty: empty,
            columns(DeadGroupFilter())
        )
    }

    private static let hint: HTML = """
        A delivery comes here after its last attempt (<code>retry.max_attempts</code>), or when its handler rejects it.
        """

    /// A group leads to the letters that are counted here; one that can't be named in a filter, nowhere.
    private static func columns(_ filter: DeadGroupFilter) -> [PageColumn<DeadLetterGroup>] {
        [
            "handler",
            PageColumn("error_group") { group in
                let address = group.address.query("since", filter.since?.rfc3339).query("until", filter.until?.rfc3339)
                let text = group.group.shortened(120)
                return group.nameInFilters == nil ? "\(stranger: text)" : Part.link(address, text)
            },
            PageColumn("count") { "\(Figures.count($0.count, limit: $0.countedTo ?? .max))" }, "first_died_at",
            "last_died_at",
        ]
    }

    // MARK: The letters of a group

    static func letters(_ request: PageRequest) async throws -> HTML {
        let (list, jobs) = try await PageList.read(request, DeadPart.list) { connection, _ in
            try await JobPart.running(connection, request)
        }
        let filter = list.asked.filter
        // A key alone may be another handler's letter as well.
        let mayChoose = request.mayAct && filter.handler != nil && !list.rows.isEmpty
        var columns: [PageColumn<DeadLetter>] = ["message_key"]
        if mayChoose { columns.insert(.choice("filter.message_key") { "\($0.messageKey)" }, at: 0) }
        if filter.handler == nil { columns.append("handler") }
        columns += [
            "died_at", PageColumn("category", absent: "gone"), "attempts",
            PageColumn("error") { "<span class=\"mono\">\(stranger: $0.error.shortened(100))</span>" },
        ]
        if mayChoose { columns.append(.actions { _ in Act.ofRow("Retry", "chosen-retry") }) }
        let acts = request.mayAct && !list.isEmpty && !list.rows.isEmpty
        let all: HTML = HTML.when(
            mayChoose,
            """
            <label class="check needs-script"><input type="checkbox" data-choose-all> All on this page</label>
            """
        )
        let count = Figures.count(list.rows.count) + (list.next == nil ? "" : "+")
        let table = list.table("Dead letters", columns, "No dead letters", hint)
        return request.document(
            "Dead letters",
            refresh: jobs.isEmpty ? 30 : 2,
            """
            <p class="crumb"><a href="/dead">Dead letters</a></p>
            \(Part.head(filter.handler ?? "Letters", about(filter), actions: HTML.when(acts, actions(list, mayChoose))))
            <div id="dead-jobs" data-live>\(jobs)</div>
            <div id="dead-letters" data-live>\(Part.card("Letters", count: count, actions: all, table + list.pager))</div>
            \(list.form)
            """
        )
    }

    private static func about(_ filter: DeadLetterFilter) -> HTML {
        guard let group = filter.group else { return "The latest first." }
        return "<span class=\"mono\">\(stranger: group)</span>"
    }

    /// What acts on the chosen letters, and on all that the filter selects.
    private static func actions(
        _ list: PageList<DeadLetterFilter, DeadLetter, DeadLetterCursor>,
        _ mayChoose: Bool
    ) -> HTML {
        let (filter, values) = (list.asked.filter, list.asked.values)
        let isGroup = values.count == 2 && filter.handler != nil && filter.group != nil
        let of = (handler: filter.handler, group: filter.group)
        let chosen: HTML = HTML.when(
            mayChoose,
            actions("chosen", "chosen", list.members.filter { $0.0 != "filter.message_key" }, of: of, isChosen: true)
        )
        return chosen + actions("these", isGroup ? "group" : "these", list.members, of: of)
    }

    private static func rate(_ id: String) -> HTML {
        """
        <div><label for="\(id)-rate">Due per second; pause the handler to stop them</label>
        <input id="\(id)-rate" name="rate" data-kind="number" type="number" min="0.001" step="any" placeholder="all at once"></div>
        """
    }

    /// The dialogs that retry and discard, which name at once what they are about.
    static func actions(
        _ id: String,
        _ what: String,
        _ fields: [(String, String)],
        of place: (handler: String?, group: String?),
        isChosen: Bool = false
    ) -> HTML {
        let handler: HTML = place.handler.map { "Handler <strong>\($0)</strong>" } ?? "All handlers"
        let group: HTML = place.group.map { ", group <span class=\"mono\">\(stranger: $0.shortened(160))</span>" } ?? ""
        func dialog(_ verb: String, _ address: PageAddress, done: String, _ kind: Act.Kind, _ means: HTML) -> HTML {
            let id = "\(id)-\(verb.lowercased())"
            return Act.dialog(
                id,
                what.isEmpty ? verb : "\(verb) \(what)",
                address,
                done: done,
                kind: kind,
                isSmall: what.isEmpty,
                counted: verb,
                ofChosen: isChosen,
                fields: fields,
                "<p>\(handler)\(group).</p><p>\(means)</p>\(Act.reason(id))\(HTML.when(verb == "Retry", rate(id)))"
            )
        }
        return dialog(
            "Retry",
            "/api/v1/dead/retry",
            done: "Queued again",
            .plain,
            "They are queued again, with all attempts before them."
        )
            + dialog(
                "Discard",
                "/api/v1/dead/discard",
                done: "Discarded",
                .danger,
                "The deliveries are deleted for good; the messages themselves stay."
            )
    }
}

extension DeadLetterGroup {
    /// The group as a filter takes it; nil if it is not shown whole.
    var nameInFilters: String? { group.contains(Sight.hidden) || group.contains(TokenText.masked) ? nil : group }

    /// The page of its letters; of its handler's groups where it can't be named.
    var address: PageAddress {
        guard let name = nameInFilters else { return PageAddress("/dead").query("handler", handler) }
        return PageAddress("/dead/letters").query("handler", handler).query("group", name)
    }
}
