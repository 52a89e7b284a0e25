import Hummingbird
import Postgres
import Replaying
import Resources
import Vocabulary

/// The replays: a list, and each with its progress and history.
struct ReplaysPage: ConsoleRoutes {
    let services: ConsoleServices

    func add(to router: RouterGroup<ConsoleContext>) {
        router.page("replays") { [self] request in try await list(request) }
        router.page("replays/:id") { [self] request in try await detail(request) }
    }

    private func list(_ request: PageRequest) async throws -> HTML {
        let (rows, now) = try await services.reader.withConnection { connection in
            let rows = try await connection.run { connection throws(PostgresError) in
                try ReplayTable.list(connection, limit: 100)
            }
            return (rows.map { $0.shown(to: services.settings.sight) }, try await connection.databaseTime())
        }
        let new: HTML = request.mayAct ? "<a class=\"button primary\" href=\"/replays/new\">Plan a replay</a>" : ""
        let isBusy = rows.contains { $0.state.isActive }
        return PageShell("Replays", .replays, for: request, refresh: isBusy ? 3 : 15).document(
            """
            \(Part.head("Replays", "Stored messages that are sent again.", actions: new))
            <section class="card" id="replays" data-live>\(table(rows, now))</section>
            """
        )
    }

    private func table(_ rows: [Replay], _ now: Timestamp) -> HTML {
        guard !rows.isEmpty else {
            return Part.empty(
                "No replays yet",
                """
                Plan one here or from <a href="/messages">a filter of messages</a>; it shows what it would send before anything is sent.
                """
            )
        }
        return Part.table(
            "Replays",
            rows,
            now: now,
            [
                PageColumn("name") {
                    "<a href=\"\(PageAddress("/replays").adding("\($0.id)"))\">\(stranger: $0.name)</a>"
                },
                "target", PageColumn("state", cell: Self.badge),
                PageColumn("done", title: "Progress") {
                    Part.progress("Progress of \($0.name)", $0.done, of: $0.planned)
                },
                "created_at", "created_by",
            ]
        )
    }

    static func badge(_ replay: Replay) -> HTML {
        switch replay.state {
        case .planned: Part.badge(.idle, "planned")
        case .running: Part.badge(.active, "running")
        case .paused: Part.badge(.warning, "paused")
        case .finished: Part.badge(.good, "finished")
        case .cancelled: Part.badge(.idle, "cancelled")
        case .failed: Part.badge(.bad, "failed")
        }
    }

    // MARK: One replay

    private func detail(_ request: PageRequest) async throws -> HTML {
        let name = request.part("id")
        let found = try await services.reader.withConnection { connection in
            try await connection.run { connection throws(PostgresError) -> ReplayDetail? in
                guard let replay = try ReplayTable.find(connection, name) else { return nil }
                return try ReplayDetail.read(connection, replay)
            }
        }
        guard let found = found?.shown(to: services.settings.sight) else {
            throw Problem.notFound("no replay has this name or id: see /replays")
        }
        let now = try await services.reader.withConnection { try await $0.databaseTime() }
        let view = View(found: found, now: now, mayAct: request.mayAct)
        let refresh = found.replay.state.isActive ? 2 : 15
        return PageShell("Replay", .replays, for: request, refresh: refresh).document(
            """
            <p class="crumb"><a href="/replays">Replays</a> / <span class="mono">\("\(found.replay.id)")</span></p>
            <div id="replay" class="stack" data-live>\(view.head)\(view.progress)\(view.facts)\(view.history)</div>
            """
        )
    }

    private struct View {
        var found: ReplayDetail
        var now: Timestamp
        var mayAct: Bool

        private var replay: Replay { found.replay }

        var head: HTML {
            """
            <header class="head"><div><h1>Replay \(stranger: replay.name)</h1>
            <p class="lead">\(ReplaysPage.badge(replay)) to \(stranger: replay.target.description)</p></div>
            <div class="actions">\(mayAct ? buttons : "")</div></header>
            """
        }

        /// The buttons that the state allows.
        private var buttons: HTML {
            var buttons = HTML()
            let id = "\(replay.id)"
            let address = PageAddress("/api/v1/replays").adding(id)
            if case .become = replay.state.transition(on: .start), replay.target.kind == "handlers",
                replay.state != .paused
            {
                buttons += Act.button("Start", address.adding("start"), done: "Started", kind: .primary)
            }
            if replay.state == .running { buttons += Act.button("Pause", address.adding("pause"), done: "Paused") }
            if replay.state == .paused {
                buttons += Act.button("Resume", address.adding("resume"), done: "Resumed", kind: .primary)
            }
            if case .become = replay.state.transition(on: .cancel) {
                buttons += Act.dialog(
                    "cancel",
                    "Cancel replay",
                    address.adding("cancel"),
                    done: "Cancelled",
                    kind: .danger,
                    "<p>Nothing more is sent; what was sent stays sent. A cancelled replay can't be started again.</p>\(Act.reason("cancel"))"
                )
            }
            return buttons
        }

        var progress: HTML {
            let note: HTML =
                replay.lastError.map { Part.notice(.bad, "<strong>Stopped:</strong> \(stranger: $0.shortened(600))") }
                ?? ""
            let rest: HTML =
                replay.target.kind == "handlers"
                ? """
                <p class="muted">\(Figures.count(found.waiting, limit: 100_000)) of its deliveries wait, \
                \(Figures.count(found.dead, limit: 100_000)) are dead letters.</p>
                """ : ""
            return Part.card(
                "Progress",
                """
                <div class="body">\(note)\(Part.progress("Progress", replay.done, of: replay.planned))\(rest)</div>
                """
            )
        }

        var facts: HTML {
            var pace: [String] = []
            if let rate = replay.pace.rate { pace.append("\(Figures.decimal(rate)) per second") }
            if let speed = replay.pace.speed { pace.append("\(Figures.decimal(speed)) × as received") }
            if let most = replay.pace.concurrency { pace.append("at most \(Figures.count(most)) in flight") }
            return Part.card(
                "Plan",
                Part.facts([
                    ("Planned", "\(Part.age(replay.createdAt, now: now)) by \(stranger: replay.createdBy)"),
                    ("Reason", replay.reason.map { "\(stranger: $0)" } ?? "<span class=\"muted\">none given</span>"),
                    ("Messages", "\(Figures.count(replay.planned)), \(Figures.count(replay.skipped)) skipped so far"),
                    (
                        "Received",
                        replay.span.map { "\(Part.time($0.lowerBound)) – \(Part.time($0.upperBound))" } ?? "–"
                    ),
                    ("Pace", pace.isEmpty ? "no limit" : "\(pace.joined(separator: ", "))"),
                    ("Run by", replay.owner.map { "<span class=\"mono\">\($0)</span>" } ?? "nobody"),
                    ("Filter", "<code>\(stranger: replay.selection.shortened(600))</code>"),
                ])
            )
        }

        var history: HTML {
            Part.card(
                "History",
                Part.table("History", found.history.reversed(), now: now, ["at", "event", "who", "done", "detail"])
            )
        }
    }
}
