import Hummingbird
import MessageStore
import Postgres
import Querying
import Resources
import Vocabulary

/// `GET handlers`, `POST handlers/{name}/pause`, `resume` and `remove`, and their pages.
enum HandlerPart {
    static let part = ConsolePart(
        section: Section("Handlers", "/handlers", "M4 7h10M18 7h2M4 17h2M10 17h10M16 4v6M8 14v6"),
        endpoints: [
            .get("listHandlers", "handlers", "The handlers, with what waits for them.", rows: handlers),
            .action("pauseHandler", "handlers/{name}/pause", pause)
                .about("Pauses a handler in every worker.").takes([name], body: [length]),
            .action("resumeHandler", "handlers/{name}/resume", resume).about("Resumes a handler.").takes([name]),
            .action("removeHandler", "handlers/{name}/remove", remove)
                .about(
                    "Counts what a handler that no worker runs has; with the count's `as_of` deletes both, part by part."
                )
                .takes([name], body: [ActionBody.asOf]),
        ],
        pages: [Page(path: "handlers", make: page), Page(path: "handlers/{name}", make: HandlerPage.make)]
    )

    private static let name = Parameter.path(
        "name",
        schema: #"{"type":"string","examples":["billing"]}"#,
        "The handler's name."
    ) { $0 }
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

    /// Without `as_of` counts; with it does the next part of the removal.
    private static func remove(_ request: ActionRequest) async throws -> Response {
        let (name, author) = (try request[name], request.author)
        guard let time = try request.body.time else { return try await counted(name, request.services) }
        return try await request.perform { connection throws(PostgresError) in
            switch try HandlerStates.remove(connection, name, by: author) {
            case .failure(.unknown): return .failure(unknown(name))
            case .failure(.claimed): return .failure(Problem(.handlerRuns, runs))
            case .success(let part):
                let done = if case .under(let count) = part { count } else { 0 }
                return .success(ActionAnswer(["done": done, "more": part != .done, "as_of": time] as JSONObject))
            }
        }
    }

    private static let runs = "a worker runs it: take it out of every worker's configuration and restart them"

    private static func counted(_ name: String, _ services: ConsoleServices) async throws -> Response {
        let (found, now) = try await services.primary.withConnection { connection in
            let all = try await HandlerStates(connection).list(counted: Overview.countLimit)
            return (all.first { $0.name == name }, try await connection.databaseTime())
        }
        guard let found else { throw unknown(name) }
        guard !found.isClaimed else { throw Problem(.handlerRuns, runs) }
        func count(_ number: Int) -> String { Figures.count(number, limit: Overview.countLimit) }
        let about = "\(count(found.depth)) waiting and \(count(found.deadLetters)) dead deliveries, which are deleted"
        return .json((["planned": 1, "as_of": now, "about": about] as JSONObject).json())
    }

    private static func duration(_ text: String) throws(Problem) -> Duration {
        guard let parsed = DurationText(text), parsed.count > 0, parsed.unit != nil, let length = parsed.duration,
            length <= .seconds(36_525 * 86_400)
        else { throw .badRequest("'for' is a duration such as 30m or 12h") }
        return length
    }

    static func unknown(_ name: String) -> Problem {
        .notFound("no handler '\(name.prefix(100))' is registered: GET handlers lists them")
    }

    // MARK: The list's page

    /// The order of the list; the worst comes first without one.
    private enum Order: String, CaseIterable {
        case state, rate, failures, p95, waiting, oldest, dead, error
    }

    private struct Row {
        let view: HandlerView
        /// The figures of the last hour.
        let hour: HistoryPoint?
        let failure: FailedAttempt?

        /// By how much it comes first in an order.
        func weight(_ order: Order) -> Double {
            let state = view.state
            switch order {
            case .state where state.isPaused || state.heldUntil != nil: return 2
            case .state where view.failing > 0: return 4
            case .state where !state.isClaimed: return state.depth > 0 ? 3 : 1
            case .state: return hour?.failedShare ?? 0
            case .rate: return view.attempts
            case .failures: return hour?.failedShare ?? -1
            case .p95: return hour?.time(below: 0.95) ?? -1
            case .waiting: return Double(state.depth)
            case .oldest: return state.oldestAge?.inSeconds ?? -1
            case .dead: return Double(state.deadLetters)
            case .error: return failure.map { Double($0.attempt.startedAt.microseconds) } ?? -1
            }
        }
    }

    private static func page(_ request: PageRequest) async throws -> HTML {
        let order = request.query["sort"].flatMap(Order.init) ?? .state
        let (views, hours, failures) = try await request.look { connection in
            let views = try await handlers(connection)
            let names = views.map(\.state.name)
            return (
                views, try await History.lastHour(connection, handlers: names),
                try await FailedAttempt.latest(connection, of: names, limit: 1).map { $0.shown(to: request.sight) }
            )
        }
        let failed = Dictionary(failures.map { ($0.attempt.handler, $0) }) { first, _ in first }
        let rows = views.map { Row(view: $0, hour: hours[$0.state.name], failure: failed[$0.state.name]) }
            .sorted { ($1.weight(order), $0.view.state.name) < ($0.weight(order), $1.view.state.name) }
        return request.document(
            "Handlers",
            refresh: 5,
            """
            \(Part.head("Handlers", "Who takes the messages; failures and p95 of the last hour."))
            <div id="handlers" class="dense" data-live>\(list(rows, order))</div>
            """
        )
    }

    private static func list(_ rows: [Row], _ order: Order) -> HTML {
        let found = Dictionary(rows.map { ($0.view.state.name, $0) }) { first, _ in first }
        func column(
            _ title: String,
            _ sorted: Order?,
            isNumber: Bool = true,
            _ cell: @escaping (Row) -> HTML?
        ) -> PageColumn<HandlerView> {
            var column = PageColumn<HandlerView>(title: title) { view in
                found[view.state.name].flatMap(cell) ?? "<span class=\"muted\">–</span>"
            }
            (column.isNumber, column.isSorted) = (isNumber, sorted == order)
            column.link = sorted.map { PageAddress("/handlers").query("sort", $0.rawValue) }
            return column
        }
        let hint: HTML = """
            Add one under <code>handlers:</code> in the configuration and start a worker; messages are kept either way.
            """
        guard let first = rows.first else {
            return Part.card("Handlers", Part.empty("No handler is registered", hint))
        }
        // Without a head, so that 30 fit one screen.
        let table = Part.table(
            "Handlers",
            rows.map(\.view),
            now: first.view.at,
            [
                column("Handler", nil, isNumber: false) {
                    "<a href=\"\(address($0.view.state.name))\">\($0.view.state.name)</a>"
                },
                column("State", .state, isNumber: false) { badge($0.view) },
                column("Attempts/s", .rate) { "\(Figures.decimal($0.view.attempts))" },
                column("Failed", .failures) { $0.hour?.failedShare.map { "\(Chart.Unit.percent.text($0))" } },
                column("p95", .p95) { $0.hour?.time(below: 0.95).map { "≤ \(Amount.time($0))" } },
                column("Waiting", .waiting) { linked($0.view, $0.view.state.depth, "/deliveries") },
                column("Oldest", .oldest) { $0.view.state.oldestAge.map { "\(Figures.length($0))" } },
                column("Dead", .dead) { linked($0.view, $0.view.state.deadLetters, "/dead") },
                column("Last error", .error, isNumber: false) { row in
                    row.failure.map {
                        """
                        \(Part.age($0.attempt.startedAt, now: row.view.at)) \
                        <span class="mono">\(stranger: ($0.attempt.errorGroup ?? "unknown").shortened(60))</span>
                        """
                    } ?? row.view.reason.map { "<span class=\"mono\">\(stranger: $0.shortened(60))</span>" }
                },
            ]
        )
        return "<section class=\"card\">\(table)</section>"
    }

    /// The address of a handler's page.
    static func address(_ name: String) -> PageAddress { PageAddress("/handlers").adding(name) }

    /// A count that leads to what it counts.
    static func linked(_ view: HandlerView, _ count: Int, _ address: PageAddress) -> HTML {
        guard count > 0 else { return "0" }
        let address = address.query("handler", view.state.name)
        return "<a href=\"\(address)\">\(Figures.count(count, limit: view.countedTo))</a>"
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
}
