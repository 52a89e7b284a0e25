import MessageStore
import Resources
import Vocabulary

/// `GET overview`, and its page, with what needs attention first.
enum OverviewPart {
    static let part = ConsolePart(
        section: Section("Overview", "/", "M4 13h6V4H4zM14 20h6v-9h-6zM4 20h6v-3H4zM14 7h6V4h-6z"),
        endpoints: [
            .get(
                "getOverview",
                "overview",
                "How things stand: rates, latency, streams, handlers, sizes.",
                one: Overview.take
            )
        ],
        pages: [Page(path: "/", make: page)]
    )

    private static func page(_ request: PageRequest) async throws -> HTML {
        let range = HistoryRange(request)
        let (overview, erasures, groups, history) = try await request.look { connection in
            (
                try await Overview.take(connection), try await MaintenanceRequests.openErasures(connection),
                try await DeadLetters(connection).summary(groups: 5, counted: 2_000),
                try await History.read(connection, .store, range)
            )
        }
        let view = View(
            overview: overview,
            erasure: erasures.first,
            groups: groups.map { $0.shown(to: request.sight) },
            mayAct: request.mayAct,
            charts: HistoryCharts(history, held: "commits waited for a standby")
        )
        return request.document(
            "Overview",
            refresh: range.refresh,
            """
            \(Part.head("Overview", actions: range.links("/")))
            <div id="attention" class="stack" data-live>\(view.attention)</div>
            <div id="figures" class="figures" data-live>\(view.figures)</div>
            <div id="days" data-live>\(view.charts.days(now: overview.store.takenAt))</div>
            <div id="trends" class="charts" data-live>\(view.trends)</div>
            <div class="columns"><div id="over-handlers" data-live>\(view.handlers)</div>
            <div class="stack"><div id="streams" data-live>\(view.streams)</div><div id="workers" data-live>\(view.workers)</div></div></div>
            \(view.table)
            """
        )
    }

    private struct View {
        let overview: Overview
        /// The oldest that was asked for and not done.
        let erasure: MaintenanceRequest?
        let groups: [DeadLetterGroup]
        let mayAct: Bool
        let charts: HistoryCharts

        /// The most handlers listed.
        private static let mostHandlers = 10

        private var store: StoreStatistics { overview.store }
        private var now: Timestamp { store.takenAt }

        private func count(_ count: Int) -> String { Figures.count(count, limit: Overview.countLimit) }

        // MARK: Attention

        var attention: HTML {
            var list = AttentionList()
            if overview.alive.isEmpty {
                let what: HTML = "No worker has been heard of for 20 s: nothing is received."
                list.add(.bad, "no worker", what, "/handlers", "Handlers")
            }
            for worker in overview.workers where !worker.isAlive {
                let what: HTML = """
                    Worker <span class="mono">\(worker.worker)</span> was last heard of \(Part.age(worker.heartbeatAt, now: now)) \
                    and did not stop in order\(successor(of: worker)).
                    """
                list.add(.bad, "silent worker", what, end: mayAct ? SystemPart.dismiss(worker) : "")
            }
            for sender in overview.streams where sender.bound == 0 {
                let name: HTML = "<span class=\"mono\">\(stranger: sender.sender)</span>"
                let what: HTML = "Sender \(name) has no stream that receives."
                list.add(.bad, "no stream", what, PageAddress("/messages").query("sender", sender.sender), "Messages")
            }
            if store.daysAhead == 0 {
                list.add(.bad, "no partition", "Tomorrow has no partition yet.", "/retention", "Retention")
            }
            if let erasure, now - erasure.requestedAt > .seconds(86_400) {
                let what: HTML = """
                    An erasure, asked for \(Part.age(erasure.requestedAt, now: now)), waits: run \
                    <code>upstream-worker forget --requests</code>.
                    """
                list.add(.warning, "not erased", what, "/retention", "Retention")
            }
            addHandlers(to: &list)
            for group in groups {
                let what: HTML = """
                    \(Figures.count(group.count, limit: group.countedTo ?? .max)) of <strong>\(group.handler)</strong> failed with \
                    <span class="mono">\(stranger: group.group.shortened(100))</span>, the last \(Part.age(group.last, now: now)).
                    """
                let retry: HTML = HTML.when(
                    mayAct && group.nameInFilters != nil,
                    "<a class=\"needs-script\" href=\"\(group.address.opening("these-retry"))\">Retry</a>"
                )
                list.add(.warning, "dead letters", what, end: "\(retry)<a href=\"\(group.address)\">Look</a>")
            }
            return list.html
        }

        private func addHandlers(to list: inout AttentionList) {
            let (all, own) = (overview.handlers, { (view: HandlerView) in HandlerPart.address(view.state.name) })
            list.add(.bad, "circuit open", all.filter { $0.failing > 0 }, many: "fail; they are probed", own) { _ in
                "fails; it is probed from time to time."
            }
            list.add(.warning, "paused", all.filter(\.state.isPaused), many: "are paused", own) { view in
                let reason: HTML = view.state.pausedReason.map { ": \(stranger: $0.shortened(120))" } ?? ""
                return "is paused\(reason)"
            }
            let idle = all.filter { !$0.state.isPaused && !$0.state.isClaimed && $0.state.depth > 0 }
            list.add(
                .warning,
                "not run",
                idle,
                many: "are run by no worker, and deliveries wait",
                { PageAddress("/deliveries").query("handler", $0.state.name) },
                one: { "is run by no worker; \(count($0.state.depth)) wait." }
            )
        }

        /// A worker that has started on the same machine since.
        private func successor(of worker: WorkerRow) -> HTML {
            let host = worker.worker.prefix { $0 != ":" }
            let next = overview.alive.first {
                $0.worker.prefix { $0 != ":" } == host && $0.startedAt > worker.heartbeatAt
            }
            return next.map { "; <span class=\"mono\">\($0.worker)</span> has started there since" } ?? ""
        }

        // MARK: Figures

        var figures: HTML {
            let dead = store.handlers.reduce(0) { $0 + $1.deadLetters }
            let oldest = store.handlers.compactMap(\.oldestAge).max()
            let days = Amount.counted(store.days.count, "day")
            return [
                Part.figure(
                    "Messages kept",
                    Figures.estimate(store.table("messages")?.rows),
                    store.newest.map { "newest \(Part.age($0, now: now))" } ?? "none received yet"
                ),
                Part.figure("In flight", Figures.count(overview.inFlight), "received, not yet acked"),
                Part.figure(
                    "Waiting",
                    count(store.handlers.reduce(0) { $0 + $1.depth }),
                    oldest.map { "oldest \(Figures.length($0))" } ?? "nothing waits"
                ),
                Part.figure("Dead letters", count(dead), "given up", tone: dead > 0 ? .warning : nil),
                Part.figure("Streams", Figures.count(overview.streams.reduce(0) { $0 + $1.bound }), "bound"),
                Part.figure("Database", Amount.bytes(store.databaseBytes), "\(days) of messages"),
            ].reduce(HTML(), +)
        }

        var trends: HTML {
            [
                charts.chart(
                    "Messages",
                    .perSecond,
                    ("received", { $0.rate($0.received) }),
                    ("stored", { $0.rate($0.stored) }),
                    ("handled", { $0.rate($0.handled) })
                ),
                charts.times("Ack latency, at most", 0.5, 0.99),
                charts.chart("Waiting deliveries", .count, ("waiting", { $0.waiting.map(Double.init) })),
                charts.chart("Oldest delivery", .seconds, ("oldest", \.oldest)),
            ].reduce(HTML(), +)
        }

        var table: HTML {
            charts.table(
                ["received", "stored", "handled", "failed", "p50", "p99", "waiting", "oldest_seconds"],
                now: now
            )
        }

        // MARK: Tables

        var handlers: HTML {
            let all = overview.handlers
            guard !all.isEmpty else {
                let hint: HTML = "Add one under <code>handlers:</code> in the configuration."
                return Part.card("Handlers", Part.empty("No handler is registered", hint))
            }
            // Their page has all, the worst first.
            func weight(_ view: HandlerView) -> Int {
                (view.failing > 0 ? 1_000_000 : 0) + view.state.depth + view.state.deadLetters
            }
            let worst = Set(all.sorted { weight($0) > weight($1) }.prefix(Self.mostHandlers).map(\.state.name))
            return Part.card(
                "Handlers",
                count: Figures.count(all.count),
                actions: HTML.when(all.count > worst.count, "<a href=\"/handlers\">All handlers</a>"),
                Part.table(
                    "Handlers",
                    all.filter { worst.contains($0.state.name) },
                    now: now,
                    [
                        PageColumn("handler") {
                            "<a href=\"\(HandlerPart.address($0.state.name))\">\($0.state.name)</a>"
                        },
                        PageColumn("state", cell: HandlerPart.badge),
                        PageColumn("attempts_per_second", title: "Attempts/s"),
                        PageColumn("waiting") { "\(count($0.state.depth))" },
                        PageColumn("dead_letters") { "\(count($0.state.deadLetters))" },
                    ]
                )
            )
        }

        var streams: HTML {
            Part.rows(
                "Streams by sender",
                overview.streams,
                now: now,
                empty: ("No streams", "Streams of each sender appear here while a worker runs."),
                [
                    PageColumn("sender") { Part.link(PageAddress("/messages").query("sender", $0.sender), $0.sender) },
                    PageColumn(title: "State") {
                        $0.bound > 0 ? Part.badge(.good, "receiving") : Part.badge(.bad, "none bound")
                    },
                    "bound", "connecting", "draining",
                ]
            )
        }

        var workers: HTML {
            Part.rows(
                "Workers",
                overview.workers,
                now: now,
                empty: ("No worker runs", "Start one: <code>upstream-worker run --config worker.yaml</code>."),
                [
                    PageColumn("worker") {
                        "<span class=\"mono\">\($0.worker)</span><span class=\"sub\">\($0.version)</span>"
                    },
                    PageColumn("alive", title: "State") { worker in
                        if worker.isStopping { return Part.badge(.warning, "stopping") }
                        return worker.isAlive ? Part.badge(.good, "alive") : Part.badge(.bad, "silent")
                    },
                    PageColumn("started_at", title: "Started"), PageColumn("heartbeat_at", title: "Heard of"),
                ]
            )
        }
    }
}
