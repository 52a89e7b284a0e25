import Hummingbird
import Postgres
import Replaying
import Resources
import Vocabulary

/// `GET replays` and `replays/{id}`, `POST replays/plan`, and `start`, `pause`, `resume` and `cancel` of a replay, and
/// their pages: a list, and each with its progress and history.
///
/// Workers run replays to handlers; one to a file or an XMPP endpoint runs in a process of its own, and can only be
/// paused and cancelled here.
enum ReplayPart {
    static let part = ConsolePart(
        section: Section("Replays", "/replays", "M4 12a8 8 0 1 0 3-6.2M4 4v4h4M11 9l4 3-4 3z"),
        endpoints: [
            .get("listReplays", "replays", replays)
                .about("Replays, the latest first.", .page(of: Replay.self)).takes([limit]),
            .get("getReplay", "replays/{id}", replay)
                .about("A replay with its history.", .one(ReplayDetail.self)).takes([id]),
            ReplayPlanning.endpoint,
            control("startReplay", .start, "Starts a replay, in the workers."),
            control("pauseReplay", .pause, "Pauses a replay."),
            control("resumeReplay", .resume, "Resumes a replay."),
            control("cancelReplay", .cancel, "Cancels a replay for good."),
        ],
        pages: [
            Page(path: "replays", make: page), Page(path: "replays/new", make: ReplayPlanning.page),
            Page(path: "replays/:id", make: detail),
        ]
    )

    private static let limit = Parameter.limit(1_000)
    private static let id = Parameter.uuid("id", "Its id.")
    private static let name = Parameter.path(
        "id",
        schema: #"{"type":"string","examples":["friday"]}"#,
        "The replay's id or name."
    ) { $0 }
    /// Whether `start` begins again with the first message.
    private static let again = Member<Bool>("again", #"{"type":"boolean"}"#)

    private static func replays(_ request: EndpointRequest) async throws -> Response {
        let limit = try request[limit]
        let replays = try await request.services.primary.run { connection throws(PostgresError) in
            try ReplayTable.list(connection, limit: limit)
        }
        return .page(replays.map { $0.shown(to: request.services.sight) })
    }

    private static func replay(_ request: EndpointRequest) async throws -> Response {
        let id = try request[id]
        let found = try await request.services.primary.run { connection throws(PostgresError) in
            try ReplayDetail.read(connection, id.description)
        }
        guard let found else { throw Problem.notFound("no replay has this id") }
        return .json(found.shown(to: request.services.sight).json())
    }

    private static func control(_ operation: StaticString, _ event: ReplayEvent, _ summary: StaticString) -> Endpoint {
        .action(operation, "replays/{id}/\(event.rawValue)") { request in
            let (name, sight, author) = (try request[name], request.services.sight, request.author)
            let chosen = request.body[again] == true ? ReplayEvent.startAgain : event
            return try await request.perform { connection throws(PostgresError) in
                guard let replay = try ReplayTable.find(connection, name) else {
                    return .failure(.notFound("there is no replay of this name or id: GET replays lists them"))
                }
                if chosen != .pause, chosen != .cancel, replay.target.kind != "handlers" {
                    let command = "`upstream-worker replay start \(replay.name)`"
                    return .failure(Problem(.otherTarget, "it is run by the process that sends it: \(command)"))
                }
                return try ReplayTable.apply(connection, chosen, to: replay.id.description, by: author)
                    .mapError(Problem.init)
                    .map { result in
                        var answer = JSONObject(result.replay.shown(to: sight))
                        answer.add("changed", result.transition != .stay)
                        return ActionAnswer(answer)
                    }
            }
        }
        .about(summary).takes([name], body: event == .start ? [again] : [])
    }

    // MARK: Pages

    private static func page(_ request: PageRequest) async throws -> HTML {
        let (rows, now) = try await request.look { connection in
            let rows = try await connection.run { try ReplayTable.list($0, limit: 50) }
            return (rows.map { $0.shown(to: request.sight) }, try await connection.databaseTime())
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

    private static func detail(_ request: PageRequest) async throws -> HTML {
        let name = request.part("id")
        let view = try await request.look { connection in
            let found = try await connection.run { try ReplayDetail.read($0, name) }
            guard let found else { throw Problem.notFound("no replay has this name or id: see /replays") }
            return View(
                found: found.shown(to: request.sight),
                now: try await connection.databaseTime(),
                mayAct: request.mayAct
            )
        }
        let replay = view.found.replay
        return request.document(
            "Replay",
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
            <p class="lead">\(ReplayPart.badge(replay)) to \(stranger: replay.target.description)</p></div>
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
            let columns: [PageColumn<ReplayTable.HistoryEntry>] = ["at", "event", "who", "done", "detail"]
            return Part.card("History", Part.table("History", found.history.reversed(), now: now, columns))
        }
    }
}
