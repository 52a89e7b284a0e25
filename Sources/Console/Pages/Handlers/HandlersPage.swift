import Hummingbird
import MessageStore

/// The handlers, their queues, and the button that pauses them.
struct HandlersPage: ConsoleRoutes {
    let services: ConsoleServices

    func add(to router: RouterGroup<ConsoleContext>) {
        router.page("handlers") { [self] request in try await page(request) }
    }

    private func page(_ request: PageRequest) async throws -> HTML {
        let handlers = try await services.reader.withConnection { try await HandlerView.list($0) }
        let shell = PageShell("Handlers", .handlers, for: request, refresh: 5)
        let view = HandlerCards(mayAct: request.mayAct)
        return shell.document(
            """
            \(Part.head("Handlers", "Who takes the messages, how fast, and what waits for them."))
            <div id="handlers" data-live>\(view.list(handlers))</div>
            """
        )
    }
}

struct HandlerCards {
    var mayAct: Bool

    static func badge(_ view: HandlerView) -> HTML {
        let handler = view.state
        if handler.isPaused { return Part.badge(.warning, "paused") }
        if handler.heldUntil != nil { return Part.badge(.warning, "held") }
        if view.failing > 0 { return Part.badge(.bad, "circuit open") }
        if !handler.isClaimed { return Part.badge(.idle, "no worker") }
        return view.attempts > 0 || view.running > 0
            ? Part.badge(.active, "working") : Part.badge(.good, "idle")
    }

    func list(_ handlers: [HandlerView]) -> HTML {
        guard !handlers.isEmpty else {
            return Part.card(
                "Handlers",
                Part.empty(
                    "No handler is registered",
                    "Add one under <code>handlers:</code> in the configuration and start a worker; messages are kept either way."
                )
            )
        }
        return "<div class=\"stack\">\(HTML(handlers, card))</div>"
    }

    private func card(_ view: HandlerView) -> HTML {
        let handler = view.state
        let facts: [(String, HTML)] = [
            ("Waiting", waiting(handler)),
            ("Oldest", handler.oldestAge.map { "\(Figures.length($0))" } ?? "–"),
            (
                "Attempts",
                """
                \(Figures.decimal(view.attempts)) per second\
                \(HTML.when(view.failed > 0, ", \(Figures.decimal(view.failed)) failed"))
                """
            ),
            ("Running now", "\(Figures.count(view.running))"),
            ("Dead letters", dead(handler)),
            ("Seen", Part.age(handler.seenAt, now: view.at)),
            (
                "Categories",
                "<span class=\"tags\">\(HTML(handler.categories) { "<span class=\"tag\">\(stranger: $0)</span>" })</span>"
            ),
            ("Workers", workers(handler)),
        ]
        return """
            <section class="card"><div class="card-head"><h2>\(handler.name) \(Self.badge(view))</h2>
            <div class="actions">\(mayAct ? buttons(handler) : "")</div></div>
            \(notes(view))\(Part.facts(facts))</section>
            """
    }

    private func waiting(_ handler: HandlerState) -> HTML {
        let count = Figures.count(handler.depth, limit: 100_000)
        guard handler.depth > 0 else { return "0" }
        return "<a href=\"\(PageAddress("/deliveries").query("handler", handler.name))\">\(count)</a>"
    }

    private func dead(_ handler: HandlerState) -> HTML {
        guard handler.deadLetters > 0 else { return "0" }
        let count = Figures.count(handler.deadLetters, limit: 100_000)
        return "<a href=\"\(PageAddress("/dead").query("handler", handler.name))\">\(count)</a>"
    }

    private func workers(_ handler: HandlerState) -> HTML {
        let live = handler.workers.filter(\.isLive)
        guard !live.isEmpty else { return "<span class=\"muted\">none</span>" }
        return HTML(live) { worker in
            """
            <span class="mono">\(worker.worker)</span>\(HTML.when(worker.isByDevice, " <span class=\"tag\">ordered</span>"))<br>
            """
        }
    }

    private func notes(_ view: HandlerView) -> HTML {
        let (handler, now) = (view.state, view.at)
        var notes = HTML()
        if handler.isPaused {
            let end: HTML = handler.pausedUntil.map { "Ends \(Part.age($0, now: now))." } ?? "Until it is resumed."
            let reason: HTML = handler.pausedReason.map { "<q>\(stranger: $0)</q> " } ?? ""
            notes += Part.notice(.warning, "<strong>Paused.</strong> \(reason)\(end)")
        }
        if let end = handler.heldUntil {
            let reason: HTML = handler.heldReason.map { "<q>\(stranger: $0)</q> " } ?? ""
            notes += Part.notice(
                .warning,
                "<strong>Held.</strong> The handler asked for a pause (Retry-After). \(reason)Ends \(Part.age(end, now: now))."
            )
        } else if view.failing > 0 {
            let probe: HTML =
                view.breaker?.nextProbe.map { "Next probe in \(Figures.length(seconds: $0))." }
                ?? "A probe is under way."
            notes += Part.notice(
                .bad,
                """
                <strong>The circuit is open</strong> in \(Figures.count(view.failing, "worker")): attempts failed one after the other, \
                so none is made for a while. \(probe)
                """
            )
        }
        return notes.isEmpty ? "" : "<div class=\"body\">\(notes)</div>"
    }

    private func buttons(_ handler: HandlerState) -> HTML {
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
