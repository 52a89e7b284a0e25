import Hummingbird
import MessageStore
import Postgres
import Resources
import Vocabulary

/// The overview, with what needs attention first.
struct OverviewPage: ConsoleRoutes {
    let services: ConsoleServices
    private let history = RateHistory()

    init(services: ConsoleServices) { self.services = services }

    func add(to router: RouterGroup<ConsoleContext>) {
        router.page("/") { [self] request in try await page(request) }
    }

    private func page(_ request: PageRequest) async throws -> HTML {
        let (statistics, workers, groups) = try await services.reader.withConnection { connection in
            let workers = try await connection.run { connection throws(PostgresError) in
                try WorkerTable.list(connection)
            }
            return (
                try await StoreStatistics.take(connection, counted: 10_000), workers,
                try await DeadLetters(connection).summary(groups: 5, counted: 10_000)
            )
        }
        let view = OverviewView(
            statistics: statistics,
            workers: workers,
            groups: groups.map { $0.shown(to: services.settings.sight) },
            history: history.add(workers),
            handlers: HandlerView.all(statistics.handlers, counted: 10_000, workers, at: statistics.takenAt)
        )
        return PageShell("Overview", .overview, for: request, refresh: 5).document(
            """
            \(Part.head("Overview"))
            <div id="attention" class="stack" data-live>\(view.attention)</div>
            <div id="figures" class="figures" data-live>\(view.figures)</div>
            <div id="trends" class="trends" data-live>\(view.trends)</div>
            <div class="columns"><div id="over-handlers" data-live>\(view.handlerTable)</div>
            <div class="stack"><div id="streams" data-live>\(view.streams)</div><div id="workers" data-live>\(view.workerTable)</div></div></div>
            """
        )
    }
}

struct OverviewView {
    var statistics: StoreStatistics
    var workers: [WorkerRow]
    var groups: [DeadLetterGroup]
    var history: [RateHistory.Sample]
    var handlers: [HandlerView]

    private var now: Timestamp { statistics.takenAt }
    private var alive: [WorkerRow] { workers.filter(\.isAlive) }

    // MARK: Attention

    var attention: HTML {
        var items: [(tone: Tone, html: HTML)] = []
        func item(_ tone: Tone, _ word: String, _ what: HTML, _ address: PageAddress, _ link: String) {
            let entry: HTML = """
                <li>\(Part.badge(tone, word))<span class="what">\(what)</span><a href="\(address)">\(link)</a></li>
                """
            items.append((tone, entry))
        }
        if alive.isEmpty {
            item(
                .bad,
                "no worker",
                "No worker has been heard of for 20 s: nothing is received.",
                "/handlers",
                "Handlers"
            )
        }
        for sender in SenderStreams.sum(alive) where sender.bound == 0 {
            item(
                .bad,
                "no stream",
                "Sender <span class=\"mono\">\(stranger: sender.sender)</span> has no stream that receives.",
                "/handlers",
                "Handlers"
            )
        }
        if statistics.daysAhead == 0 {
            item(.bad, "no partition", "Tomorrow has no partition yet.", "/retention", "Retention")
        }
        for view in handlers {
            let handler = view.state
            if view.failing > 0 {
                item(
                    .bad,
                    "circuit open",
                    "Handler <strong>\(handler.name)</strong> fails; it is probed from time to time.",
                    "/handlers",
                    "Handlers"
                )
            }
            if handler.isPaused {
                let reason: HTML = handler.pausedReason.map { ": \(stranger: $0.shortened(120))" } ?? ""
                item(
                    .warning,
                    "paused",
                    "Handler <strong>\(handler.name)</strong> is paused\(reason)",
                    "/handlers",
                    "Handlers"
                )
            } else if !handler.isClaimed, handler.depth > 0 {
                item(
                    .warning,
                    "not run",
                    "No worker runs <strong>\(handler.name)</strong>; \(Figures.count(handler.depth, limit: 10_000)) wait.",
                    PageAddress("/deliveries").query("handler", handler.name),
                    "Waiting"
                )
            }
        }
        for group in groups {
            item(
                .warning,
                "dead letters",
                """
                \(Figures.count(group.count, limit: 10_000)) of <strong>\(group.handler)</strong> failed with \
                <span class="mono">\(stranger: group.group.shortened(100))</span>, the last \(Part.age(group.last, now: now)).
                """,
                PageAddress("/dead").query("handler", group.handler).query("group", group.nameInFilters),
                "Look"
            )
        }
        guard !items.isEmpty else {
            return Part.notice(
                .good,
                "<strong>All is well.</strong> Workers receive, handlers take, nothing was given up."
            )
        }
        let ordered = items.filter { $0.tone == .bad } + items.filter { $0.tone != .bad }
        return Part.card(
            "Needs attention",
            count: "\(items.count)",
            "<ul class=\"attention\">\(ordered.map(\.html))</ul>"
        )
    }

    // MARK: Figures

    var figures: HTML {
        let waiting = statistics.handlers.reduce(0) { $0 + $1.depth }
        let dead = statistics.handlers.reduce(0) { $0 + $1.deadLetters }
        let oldest = statistics.handlers.compactMap(\.oldestAge).max()
        let newest: HTML = statistics.newest.map { "newest \(Part.age($0, now: now))" } ?? "none received yet"
        return [
            Part.figure("Messages kept", Figures.estimate(statistics.table("messages")?.rows), newest),
            Part.figure("In flight", Figures.count(alive.reduce(0) { $0 + $1.inFlight }), "received, not yet acked"),
            Part.figure(
                "Waiting",
                Figures.count(waiting, limit: 10_000),
                oldest.map { "oldest \(Figures.length($0))" } ?? "nothing waits"
            ),
            Part.figure(
                "Dead letters",
                Figures.count(dead, limit: 10_000),
                "given up",
                tone: dead > 0 ? .warning : nil
            ),
            Part.figure("Streams", Figures.count(SenderStreams.sum(alive).reduce(0) { $0 + $1.bound }), "bound"),
            Part.figure(
                "Database",
                Figures.bytes(statistics.databaseBytes),
                "\(Figures.count(statistics.days.count, "day")) of messages"
            ),
        ].reduce(HTML(), +)
    }

    /// The charts of the last minutes.
    var trends: HTML {
        func trend(_ name: String, _ value: String, _ note: HTML, _ values: [Double]) -> HTML {
            """
            <div class="figure"><span class="figure-name">\(name)</span><span class="figure-value">\(value)</span>
            <span class="figure-note">\(note)</span>\(Sparkline.html("\(name): \(value)", values))</div>
            """
        }
        let last = history.last
        let half = alive.compactMap(\.rates.ackP50).max()
        return [
            trend(
                "Received",
                Figures.decimal(last?.received ?? 0) + " /s",
                "copies read from streams",
                history.map(\.received)
            ),
            trend("Stored", Figures.decimal(last?.stored ?? 0) + " /s", "new messages", history.map(\.stored)),
            trend("Handled", Figures.decimal(last?.handled ?? 0) + " /s", "deliveries done", history.map(\.handled)),
            trend(
                "Ack latency, p99",
                last.flatMap { $0.latency > 0 ? "≤ " + Figures.length(seconds: $0.latency) : nil } ?? "–",
                half.map { "p50 ≤ \(Figures.length(seconds: $0))" } ?? "no ack lately",
                history.map(\.latency)
            ),
        ].reduce(HTML(), +)
    }

    // MARK: Tables

    var handlerTable: HTML {
        guard !statistics.handlers.isEmpty else {
            return Part.card(
                "Handlers",
                Part.empty("No handler is registered", "Add one under <code>handlers:</code> in the configuration.")
            )
        }
        let columns = [
            Column("Handler"), Column("State"), Column("Attempts/s", isNumber: true), Column("Waiting", isNumber: true),
            Column("Dead", isNumber: true),
        ]
        let rows = handlers.map { handler -> [HTML] in
            [
                "<a href=\"/handlers\">\(handler.state.name)</a>", HandlerCards.badge(handler),
                "\(Figures.decimal(handler.attempts))", "\(Figures.count(handler.state.depth, limit: 10_000))",
                "\(Figures.count(handler.state.deadLetters, limit: 10_000))",
            ]
        }
        return Part.card("Handlers", count: "\(rows.count)", Part.table("Handlers", columns, rows))
    }

    var streams: HTML {
        let rows = SenderStreams.sum(alive).map { row -> [HTML] in
            [
                "<a class=\"mono\" href=\"\(PageAddress("/messages").query("sender", row.sender))\">\(stranger: row.sender)</a>",
                row.bound > 0 ? Part.badge(.good, "receiving") : Part.badge(.bad, "none bound"),
                "\(row.bound)", "\(row.connecting)", "\(row.draining)",
            ]
        }
        let columns = [
            Column("Sender"), Column("State"), Column("Bound", isNumber: true), Column("Connecting", isNumber: true),
            Column("Draining", isNumber: true),
        ]
        let body =
            rows.isEmpty
            ? Part.empty("No streams", "Streams of each sender appear here while a worker runs.")
            : Part.table("Streams by sender", columns, rows)
        return Part.card("Streams by sender", count: "\(rows.count)", body)
    }

    var workerTable: HTML {
        let rows = workers.map { worker -> [HTML] in
            let state =
                worker.isStopping
                ? Part.badge(.warning, "stopping")
                : worker.isAlive ? Part.badge(.good, "alive") : Part.badge(.bad, "silent")
            return [
                "<span class=\"mono\">\(worker.worker)</span><span class=\"sub\">\(worker.version)</span>", state,
                Part.age(worker.startedAt, now: now), Part.age(worker.heartbeatAt, now: now),
            ]
        }
        let columns = [Column("Worker"), Column("State"), Column("Started"), Column("Heard of")]
        let body =
            rows.isEmpty
            ? Part.empty("No worker runs", "Start one: <code>upstream-worker run --config worker.yaml</code>.")
            : Part.table("Workers", columns, rows)
        return Part.card("Workers", count: "\(rows.count)", body)
    }
}
