import Digests
import Hummingbird
import MessageStore
import Postgres
import Querying
import Resources
import Vocabulary

/// `GET dead` and `dead/groups`, `POST dead/retry` and `dead/discard`, and their page.
///
/// An action comes first with a filter, which freezes a set and shows it; then with the set's id, which starts a job on
/// exactly that set.
enum DeadPart {
    static let part = ConsolePart(
        section: Section("Dead letters", "/dead", "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13M10 11v5M14 11v5"),
        endpoints: [
            .list("listDeadLetters", list, "Dead letters, the latest first."),
            .get("listDeadGroups", "dead/groups", groups)
                .about("Dead letters by handler and error group.", .page(of: DeadLetterGroup.self)).takes([handler]),
            change("retryDead", "dead/retry", "Freezes dead letters, or queues a frozen set again.", .retry),
            change("discardDead", "dead/discard", "Freezes dead letters, or deletes a frozen set.", .discard),
        ],
        pages: [Page(path: "dead", make: page)]
    )

    private static let handler = Parameter("handler", "Only of this handler.") { $0 }
    private static let id = Member<String>("id", #"{"type":"string","format":"uuid"}"#)
    private static let filter = FilterMember<DeadLetterFilter>()

    private static let list = Listing<DeadLetterFilter, DeadLetter, DeadLetterCursor>(address: "/dead", most: 200) {
        wanted in
        let rows = try await DeadLetters(wanted.connection)
            .list(wanted.filter, after: wanted.after, limit: wanted.limit)
        return .init(try await rows.shown(to: wanted.sight, wanted.connection), wanted.limit) { $0.cursor }
    }

    private static func groups(_ request: EndpointRequest) async throws -> Response {
        let handler = try request[handler]
        let groups = try await request.services.reader.withConnection { connection in
            // There may be some hundred groups: the count of each stops early.
            try await DeadLetters(connection).summary(handler: handler, groups: 500, counted: 2_000)
        }
        return .page(groups.map { $0.shown(to: request.services.sight) })
    }

    // MARK: Actions

    private static func change(
        _ operation: StaticString,
        _ path: String,
        _ summary: StaticString,
        _ fate: DeadLetters.Fate
    ) -> Endpoint {
        .action(operation, path) { request in
            guard let id = request.body[id] else { return try await freeze(fate, request) }
            return try await start(fate, id, request)
        }
        .about(
            summary,
            .one(named: "Outcome", "There is nothing to act on"),
            .one(Job.self, 201, "The frozen set"),
            .one(Job.self, 202, "The job that was started")
        )
        .takes([], body: [id, ActionBody.all, filter])
    }

    private static func start(
        _ fate: DeadLetters.Fate,
        _ id: String,
        _ request: ActionRequest
    ) async throws -> Response {
        guard request.body[filter] == nil, request.body[ActionBody.all] == nil else {
            throw Problem.badRequest("give either 'filter', to see what it selects, or the 'id' of a set, to act on it")
        }
        guard let job = Digest128(uuid: id.utf8) else { throw Problem.badRequest("'id' is a UUID") }
        let (author, sight) = (request.author, request.services.sight)
        let response = try await request.perform { connection throws(PostgresError) in
            try Jobs.start(connection, job, fate, by: author).map { $0.answer(.accepted, to: sight) }
        }
        request.services.bell.continuation.yield()
        return response
    }

    private static func freeze(_ fate: DeadLetters.Fate, _ request: ActionRequest) async throws -> Response {
        guard request.body[ActionBody.reason] == nil else {
            throw Problem.badRequest("'reason' goes with the 'id' of the set, when it is acted on")
        }
        let sight = request.services.sight
        let asked = try (request.body[filter] ?? ActionBody()).asked(DeadLetterFilter.self, sight)
        guard request.body[ActionBody.all] == true || !asked.isEmpty else {
            throw Problem.badRequest("give a filter, or \"all\": true to select every dead letter")
        }
        let (who, filter) = (request.principal.name, asked.filter)
        return try await request.perform(isLong: true) { connection throws(PostgresError) in
            try Jobs.freeze(connection, fate, filter, who: who).map { job in
                if let job { return job.answer(.created, to: sight) }
                let none: JSONObject = [
                    "id": String?.none, "action": fate.action.rawValue, "planned": 0, "groups": [String](),
                ]
                return ActionAnswer(none)
            }
        }
    }

    // MARK: The page

    private static func page(_ request: PageRequest) async throws -> HTML {
        let (list, (groups, jobs)) = try await PageList.read(request, list) { connection, filter in
            let groups = try await DeadLetters(connection).summary(handler: filter.handler)
            return (groups.map { $0.shown(to: request.sight) }, try await JobPart.running(connection, request))
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
            refresh: jobs.isEmpty ? 30 : 2,
            """
            \(Part.head("Dead letters", lead))
            <div id="dead-jobs" data-live>\(jobs)</div>
            <div id="dead-groups" data-live>\(table(groups, list.now, request.mayAct))</div>
            \(list.form)
            <div id="dead-letters" data-live>\(HTML.when(isShown, card))</div>
            """
        )
    }

    static func table(_ groups: [DeadLetterGroup], _ now: Timestamp, _ mayAct: Bool) -> HTML {
        let hint: HTML = """
            A delivery comes here after its last attempt (<code>retry.max_attempts</code>), or when its handler rejects it.
            """
        return Part.rows(
            "By group",
            groups,
            now: now,
            caption: "Groups of dead letters",
            empty: ("No dead letters", hint),
            [
                "handler",
                PageColumn("error_group") { Part.link($0.address, $0.group.shortened(160)) },
                PageColumn("count") { "\(Figures.count($0.count, limit: $0.countedTo ?? .max))" }, "first_died_at",
                "last_died_at",
                .actions { group in
                    guard mayAct, let name = group.nameInFilters else { return "" }
                    // The same when the groups change places.
                    let id = Digest128(hashing: "\(group.handler) \(name)").description.prefix(13)
                    return actions("group-\(id)", [("filter.handler", group.handler), ("filter.group", name)])
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

extension DeadLetter: HandlersWords {
    var hasWords: Bool { !error.isEmpty }
}

extension DeadLetterGroup {
    /// The group as a filter takes it; nil if it is not shown whole.
    var nameInFilters: String? { group.contains(Sight.hidden) || group.contains(TokenText.masked) ? nil : group }

    var address: PageAddress { PageAddress("/dead").query("handler", handler).query("group", nameInFilters) }
}
