import MessageStore
import Querying
import Resources
import Vocabulary

/// The page of one handler: its state and why, its history, and what failed.
struct HandlerPage {
    private let view: HandlerView
    private let charts: HistoryCharts
    private let failures: [FailedAttempt]

    static func make(_ request: PageRequest) async throws -> HTML {
        let (name, range) = (request.part("name"), HistoryRange(request))
        let (page, groups) = try await request.look { connection in
            guard
                let view = try await HandlerView.list(connection, counted: Overview.countLimit).first(where: {
                    $0.state.name == name
                })?.shown(to: request.sight)
            else { throw HandlerPart.unknown(name) }
            let page = HandlerPage(
                view: view,
                charts: HistoryCharts(try await History.read(connection, .handler(name), range), held: "circuit open"),
                failures: try await FailedAttempt.latest(connection, of: [name], limit: 10)
                    .map { $0.shown(to: request.sight) }
            )
            return (
                page,
                try await DeadLetters(connection)
                    .summary(DeadGroupFilter(handler: name), groups: 20, counted: Overview.countLimit)
            )
        }
        let shown = groups.map { $0.shown(to: request.sight) }
        let waiting = PageAddress("/deliveries").query("handler", name)
        return request.document(
            name,
            refresh: range.refresh,
            """
            <p class="crumb"><a href="/handlers">Handlers</a></p>
            <div id="handler" class="stack" data-live><header class="head"><div><h1>\(name) \(HandlerPart.badge(page.view))</h1></div>
            <div class="actions">\(HTML.when(request.mayAct, page.buttons))<a class="button" href="\(waiting)">What waits</a></div></header>
            \(page.notes)<section class="card">\(Part.facts(page.facts))</section></div>
            \(range.links(HandlerPart.address(name)))
            <div id="handler-days" data-live>\(page.charts.days(now: page.view.at))</div>
            <div id="handler-charts" class="charts" data-live>\(page.trends)</div>
            <div id="handler-failures" data-live>\(page.failed)</div>
            <div id="handler-groups" data-live>\(DeadPages.card(shown, page.view.at))</div>
            \(page.table)
            """
        )
    }

    private var facts: [(String, HTML)] {
        let (handler, live) = (view.state, view.state.workers.filter(\.isLive))
        let workers = HTML(live) { worker in
            """
            <span class="mono">\(worker.worker)</span>\(HTML.when(worker.isByDevice, " <span class=\"tag\">ordered</span>"))<br>
            """
        }
        let failed: HTML = HTML.when(view.failed > 0, ", \(Figures.decimal(view.failed)) failed")
        return [
            ("Waiting", HandlerPart.linked(view, handler.depth, "/deliveries")),
            ("Oldest", handler.oldestAge.map { "\(Figures.length($0))" } ?? "–"),
            ("Attempts", "\(Figures.decimal(view.attempts)) per second\(failed)"),
            ("Running now", "\(Figures.count(view.running))"),
            ("Dead letters", HandlerPart.linked(view, handler.deadLetters, "/dead")),
            ("Seen", Part.age(handler.seenAt, now: view.at)),
            ("Categories", Part.tags(handler.categories)),
            ("Where", handler.clauses.isEmpty ? "–" : Part.tags(handler.clauses)),
            ("Workers", live.isEmpty ? "<span class=\"muted\">none</span>" : workers),
        ]
    }

    private var trends: HTML {
        [
            charts.chart("Attempts", .perSecond, ("done", { $0.rate($0.handled) }), ("failed", { $0.rate($0.failed) })),
            charts.chart("Failed attempts", .percent, ("failed", \.failedShare)),
            charts.times("Attempts took, at most", 0.5, 0.95, 0.99),
            charts.chart("Waiting deliveries", .count, ("waiting", { $0.waiting.map(Double.init) })),
            charts.chart("Oldest delivery", .seconds, ("oldest", \.oldest)),
        ].reduce(HTML(), +)
    }

    private var table: HTML {
        charts.table(["handled", "failed", "p50", "p95", "p99", "waiting", "oldest_seconds"], now: view.at)
    }

    private var failed: HTML {
        Part.rows(
            "Latest failed attempts",
            failures,
            now: view.at,
            empty: ("No attempt failed", "None did within <code>retention.attempts</code>."),
            [
                "started_at", "message_key", "attempt",
                PageColumn("duration_seconds") { $0.attempt.duration.map { "\(Figures.length($0))" } ?? "–" },
                PageColumn("outcome") { MessageDetailPage.View.outcome($0.attempt.outcome) }, "status",
                PageColumn("error_group", title: "Answer"),
            ]
        )
    }

    private var notes: HTML {
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
                A probe is due \(Part.age(end, now: now)).
                """
            )
        } else if let breaker = view.breaker, breaker.isFailing {
            let cause: HTML = breaker.cause.map { ": \(stranger: $0)" } ?? ""
            notes += Part.notice(
                .bad,
                """
                <strong>The circuit is open</strong> in \(Amount.counted(view.failing, "worker"))\(cause); \(breaker.probe).
                """
            )
        }
        return notes
    }

    private var buttons: HTML { standing + HTML.when(!view.state.isClaimed, removal) }

    private var removal: HTML {
        let name = view.state.name
        return Act.dialog(
            "remove",
            "Remove",
            PageAddress("/api/v1/handlers").adding(name).adding("remove"),
            done: "Removed \(name)",
            kind: .danger,
            counted: "Remove",
            next: "/handlers",
            """
            <p>No worker runs <strong>\(name)</strong>. Its subscriptions, waiting deliveries and dead letters are deleted; the messages \
            stay, and a replay can send them to another handler.</p>\(Act.reason("remove"))
            """
        )
    }

    /// What changes how it stands.
    private var standing: HTML {
        let handler = view.state
        let address = PageAddress("/api/v1/handlers").adding(handler.name)
        guard !handler.isPaused, handler.heldUntil == nil else {
            return Act.button("Resume", address.adding("resume"), done: "Resumed \(handler.name)", kind: .primary)
        }
        let id = "pause-\(handler.name)"
        let close = Act.button(
            "Close the circuit",
            address.adding("resume"),
            done: "Closed the circuit of \(handler.name)"
        )
        return HTML.when(view.failing > 0, close)
            + Act.dialog(
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
