import Postgres
import Replaying
import Resources
import Vocabulary

/// The replays: a list, and each with its progress and history.
enum ReplaysPage {
    static func list(_ request: PageRequest) async throws -> HTML {
        let (rows, now) = try await request.services.reader.withConnection { connection in
            let rows = try await connection.run { connection throws(PostgresError) in
                try ReplayTable.list(connection, limit: 100)
            }
            return (rows.map { $0.shown(to: request.services.sight) }, try await connection.databaseTime())
        }
        let new: HTML = request.mayAct ? "<a class=\"button primary\" href=\"/replays/new\">Plan a replay</a>" : ""
        let hint: HTML = """
            Plan one here or from <a href="/messages">a filter of messages</a>; it shows what it would send before anything is sent.
            """
        let columns: [PageColumn<Replay>] = [
            PageColumn("name") {
                "<a href=\"\(PageAddress("/replays").adding("\($0.id)"))\">\(stranger: $0.name)</a>"
            },
            "target", PageColumn("state", cell: badge),
            PageColumn("done", title: "Progress") { Part.progress("Progress of \($0.name)", $0.done, of: $0.planned) },
            "created_at", "created_by",
        ]
        let table =
            rows.isEmpty ? Part.empty("No replays yet", hint) : Part.table("Replays", rows, now: now, columns)
        return request.document(
            "Replays",
            .replays,
            refresh: rows.contains { $0.state.isActive } ? 3 : 15,
            """
            \(Part.head("Replays", "Stored messages that are sent again.", actions: new))
            <section class="card" id="replays" data-live>\(table)</section>
            """
        )
    }

    private static func badge(_ replay: Replay) -> HTML {
        let tone: Tone =
            switch replay.state {
            case .planned, .cancelled: .idle
            case .running: .active
            case .paused: .warning
            case .finished: .good
            case .failed: .bad
            }
        return Part.badge(tone, replay.state.rawValue)
    }

    // MARK: One replay

    static func detail(_ request: PageRequest) async throws -> HTML {
        let (name, services) = (request.part("id"), request.services)
        let view = try await services.reader.withConnection { connection in
            let found = try await connection.run { connection throws(PostgresError) in
                try ReplayTable.find(connection, name).map { replay throws(PostgresError) in
                    try ReplayDetail.read(connection, replay)
                }
            }
            guard let found else { throw Problem.notFound("no replay has this name or id: see /replays") }
            return View(
                found: found.shown(to: services.sight),
                now: try await connection.databaseTime(),
                mayAct: request.mayAct
            )
        }
        let replay = view.found.replay
        return request.document(
            "Replay",
            .replays,
            refresh: replay.state.isActive ? 2 : 15,
            """
            <p class="crumb"><a href="/replays">Replays</a> / <span class="mono">\("\(replay.id)")</span></p>
            <div id="replay" class="stack" data-live>\(view.head)\(view.progress)\(view.facts)\(view.history)</div>
            """
        )
    }

    private struct View: Sendable {
        let found: ReplayDetail
        let now: Timestamp
        let mayAct: Bool

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
            let address = PageAddress("/api/v1/replays").adding("\(replay.id)")
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
