import Hummingbird
import MessageStore
import Postgres
import Resources
import Vocabulary

/// `GET handlers`, `POST handlers/{name}/pause` and `resume`, and their page.
enum HandlerPart {
    static let part = ConsolePart(
        section: Section("Handlers", "/handlers", "M4 7h10M18 7h2M4 17h2M10 17h10M16 4v6M8 14v6"),
        endpoints: [
            .get("listHandlers", "handlers", "The handlers, with what waits for them.", rows: handlers),
            .action("pauseHandler", "handlers/{name}/pause", pause)
                .about("Pauses a handler in every worker.").takes([name], body: [length]),
            .action("resumeHandler", "handlers/{name}/resume", resume).about("Resumes a handler.").takes([name]),
        ],
        pages: [Page(path: "handlers", make: page)]
    )

    private static let name = Parameter.path("name", "The handler's name.") { $0 }
    private static let length = Member<String>("for", #"{"type":"string","examples":["30m"]}"#)

    private static func handlers(_ connection: PostgresConnection) async throws -> [HandlerView] {
        try await HandlerView.list(connection, counted: Overview.countLimit)
    }

    private static func pause(_ request: ActionRequest) async throws -> Response {
        let (name, author) = (try request[name], request.author)
        let length = try request.body[length].map(duration)
        return try await request.perform { connection throws(PostgresError) in
            guard let pause = try HandlerStates.pause(connection, name, for: length, by: author) else {
                return .failure(unknown(name))
            }
            let answer: JSONObject = ["handler": name, "paused": true, "paused_until": pause.until]
            return .success(ActionAnswer(answer))
        }
    }

    private static func resume(_ request: ActionRequest) async throws -> Response {
        let (name, author) = (try request[name], request.author)
        return try await request.perform { connection throws(PostgresError) in
            guard try HandlerStates.resume(connection, name, by: author) else { return .failure(unknown(name)) }
            return .success(ActionAnswer(["handler": name, "paused": false] as JSONObject))
        }
    }

    private static func duration(_ text: String) throws(Problem) -> Duration {
        guard let parsed = DurationText(text), parsed.count > 0, parsed.unit != nil, let length = parsed.duration,
            length <= .seconds(36_525 * 86_400)
        else { throw .badRequest("'for' is a duration such as 30m or 12h") }
        return length
    }

    private static func unknown(_ name: String) -> Problem {
        .notFound("no handler '\(name.prefix(100))' is registered: GET handlers lists them")
    }

    // MARK: The page

    private static func page(_ request: PageRequest) async throws -> HTML {
        let sight = request.sight
        let handlers = try await request.look { try await HandlerView.list($0) }.map { $0.shown(to: sight) }
        let hint: HTML = """
            Add one under <code>handlers:</code> in the configuration and start a worker; messages are kept either way.
            """
        let cards: HTML =
            handlers.isEmpty
            ? Part.card("Handlers", Part.empty("No handler is registered", hint))
            : "<div class=\"stack\">\(HTML(handlers) { card($0, request.mayAct) })</div>"
        return request.document(
            "Handlers",
            refresh: 5,
            """
            \(Part.head("Handlers", "Who takes the messages, how fast, and what waits for them."))
            <div id="handlers" data-live>\(cards)</div>
            """
        )
    }

    static func badge(_ view: HandlerView) -> HTML {
        let handler = view.state
        if handler.isPaused { return Part.badge(.warning, "paused") }
        if handler.heldUntil != nil { return Part.badge(.warning, "held") }
        if view.failing > 0 { return Part.badge(.bad, "circuit open") }
        if !handler.isClaimed { return Part.badge(.idle, "no worker") }
        return view.attempts > 0 || view.running > 0
            ? Part.badge(.active, "working") : Part.badge(.good, "idle")
    }

    private static func card(_ view: HandlerView, _ mayAct: Bool) -> HTML {
        let handler = view.state
        func linked(_ count: Int, _ address: PageAddress) -> HTML {
            guard count > 0 else { return "0" }
            return
                "<a href=\"\(address.query("handler", handler.name))\">\(Figures.count(count, limit: view.countedTo))</a>"
        }
        let live = handler.workers.filter(\.isLive)
        let workers = HTML(live) { worker in
            """
            <span class="mono">\(worker.worker)</span>\(HTML.when(worker.isByDevice, " <span class=\"tag\">ordered</span>"))<br>
            """
        }
        let failed: HTML = HTML.when(view.failed > 0, ", \(Figures.decimal(view.failed)) failed")
        var facts: [(String, HTML)] = [
            ("Waiting", linked(handler.depth, "/deliveries")),
            ("Oldest", handler.oldestAge.map { "\(Figures.length($0))" } ?? "–"),
            ("Attempts", "\(Figures.decimal(view.attempts)) per second\(failed)"),
            ("Running now", "\(Figures.count(view.running))"),
            ("Dead letters", linked(handler.deadLetters, "/dead")),
            ("Seen", Part.age(handler.seenAt, now: view.at)),
            ("Categories", Part.tags(handler.categories)),
            ("Workers", live.isEmpty ? "<span class=\"muted\">none</span>" : workers),
        ]
        if !handler.clauses.isEmpty { facts.insert(("Where", Part.tags(handler.clauses)), at: facts.count - 1) }
        return """
            <section class="card"><div class="card-head"><h2>\(handler.name) \(badge(view))</h2>
            <div class="actions">\(mayAct ? button(handler) : "")</div></div>
            \(notes(view))\(Part.facts(facts))</section>
            """
    }

    private static func notes(_ view: HandlerView) -> HTML {
        let (handler, now) = (view.state, view.at)
        func reason(_ text: String?) -> HTML { text.map { "<q>\(stranger: $0)</q> " } ?? "" }
        var notes = HTML()
        if handler.isPaused {
            let end: HTML = handler.pausedUntil.map { "Ends \(Part.age($0, now: now))." } ?? "Until it is resumed."
            notes += Part.notice(.warning, "<strong>Paused.</strong> \(reason(handler.pausedReason))\(end)")
        }
        if let end = handler.heldUntil {
            notes += Part.notice(
                .warning,
                """
                <strong>Held.</strong> The handler asked for a pause (Retry-After). \(reason(handler.heldReason))\
                Ends \(Part.age(end, now: now)).
                """
            )
        } else if view.failing > 0 {
            let probe: HTML =
                view.breaker?.nextProbe.map { "Next probe in \(Amount.time($0))." }
                ?? "A probe is under way."
            notes += Part.notice(
                .bad,
                """
                <strong>The circuit is open</strong> in \(Amount.counted(view.failing, "worker")): attempts failed one after the other, \
                so none is made for a while. \(probe)
                """
            )
        }
        return notes.isEmpty ? "" : "<div class=\"body\">\(notes)</div>"
    }

    private static func button(_ handler: HandlerState) -> HTML {
        let address = PageAddress("/api/v1/handlers").adding(handler.name)
        guard !handler.isPaused, handler.heldUntil == nil else {
            return Act.button("Resume", address.adding("resume"), done: "Resumed \(handler.name)", kind: .primary)
        }
        let id = "pause-\(handler.name)"
        return Act.dialog(
            id,
            "Pause",
            address.adding("pause"),
            done: "Paused \(handler.name)",
            """
            <p>No worker starts another attempt of <strong>\(handler.name)</strong>. Messages are received, stored and acked as before, \
            and wait.</p>
            <div><label for="\(id)-for">For how long</label><select id="\(id)-for" name="for">
            <option value="">until it is resumed</option><option value="15m">15 minutes</option><option value="1h">1 hour</option>
            <option value="8h">8 hours</option><option value="1d">1 day</option></select></div>
            \(Act.reason(id))
            """
        )
    }
}
