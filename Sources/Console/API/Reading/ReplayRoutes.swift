import Hummingbird
import Postgres
import Querying
import Replaying
import Vocabulary

/// `GET replays` and `replays/{id}`.
struct ReplayRoutes: ConsoleRoutes {
    let services: ConsoleServices

    init(_ services: ConsoleServices) { self.services = services }

    func add(to router: RouterGroup<ConsoleContext>) {
        router.get("replays", use: list)
        router.get("replays/:id", use: detail)
    }

    private func list(_ request: Request, _ context: ConsoleContext) async throws -> Response {
        try context.require(.read)
        let parameters = try QueryParameters(request, .init(single: ["limit"]))
        let limit = try parameters.integer("limit", in: 1...1_000, or: 50)
        let replays = try await services.reader.run { connection throws(PostgresError) in
            try ReplayTable.list(connection, limit: limit)
        }
        return JSONAnswer.list(replays, next: nil) { json, replay in
            json.beginObject()
            replay.shown(to: services.settings.sight).writeMembers(to: &json)
            json.endObject()
        }
    }

    private func detail(_ request: Request, _ context: ConsoleContext) async throws -> Response {
        try context.require(.read)
        _ = try QueryParameters(request, .init(single: []))
        guard let id = context.parameters.get("id").flatMap({ Digest128(uuid: $0.utf8) }) else {
            throw Problem.badRequest("a replay is named by its id, 8-4-4-4-12 hexadecimal digits, as the list gives it")
        }
        let found = try await services.reader.run { connection throws(PostgresError) in
            try ReplayView.read(connection, id)
        }
        guard let found = found?.shown(to: services.settings.sight) else {
            throw Problem.notFound("no replay has this id")
        }
        return JSONAnswer.object { json in
            found.replay.writeMembers(to: &json)
            json.member("waiting", found.waiting)
            json.member("dead_letters", found.dead)
            json.name("history")
            json.array(found.history) { json, entry in
                json.beginObject()
                json.member("at", entry.at)
                json.member("event", entry.event)
                json.member("who", entry.who)
                json.member("done", entry.done)
                json.member("detail", entry.detail)
                json.endObject()
            }
        }
    }
}

/// A replay with its history, and what of it handlers have yet to do.
struct ReplayView: Sendable {
    /// The replay.
    var replay: Replay
    /// What happened to it, the oldest first.
    var history: [ReplayTable.HistoryEntry]
    /// Deliveries that are pending, and dead letters; each count stops at 100,000.
    var waiting, dead: Int64

    /// The replay as somebody may see it.
    func shown(to sight: Sight) -> ReplayView {
        var view = self
        view.replay = replay.shown(to: sight)
        view.history = history.map { $0.shown(to: sight) }
        return view
    }

    /// Reads it; nil where there is none.
    ///
    /// - Throws: `PostgresError`
    static func read(
        _ connection: isolated PostgresConnection,
        _ id: Digest128
    ) throws(PostgresError) -> ReplayView? {
        guard let replay = try ReplayTable.find(connection, id.description) else { return nil }
        let history = try ReplayTable.history(connection, of: replay.id)
        let (waiting, dead) = try ReplayTable.deliveries(connection, of: replay)
        return ReplayView(replay: replay, history: history, waiting: waiting, dead: dead)
    }
}

extension Replay {
    /// Writes what a list and the replay itself have in common.
    func writeMembers(to json: inout JSONWriter) {
        json.member("replay_id", id)
        json.member("name", name)
        json.member("state", state.rawValue)
        json.member("held", is: isHeld)
        json.member("kind", target.kind)
        json.member("target", target.description)
        json.member("selection", selection)
        json.member("planned", planned)
        json.member("done", done)
        json.member("skipped", skipped)
        json.member("rate", number: pace.rate)
        json.member("speed", number: pace.speed)
        json.member("concurrency", pace.concurrency)
        json.member("reason", reason)
        json.member("created_by", createdBy)
        json.member("created_at", createdAt)
        json.member("started_at", startedAt)
        json.member("finished_at", finishedAt)
        json.member("first_received_at", span?.lowerBound)
        json.member("last_received_at", span?.upperBound)
        json.member("runs", runs)
        json.member("owner", owner)
        json.member("elapsed_seconds", number: elapsed?.inSeconds)
        json.member("error", lastError)
    }
}
