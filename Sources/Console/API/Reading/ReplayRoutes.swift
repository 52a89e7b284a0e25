import Hummingbird
import Postgres
import Querying
import Replaying
import Resources
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
        return JSONAnswer.list(replays, next: nil) { $1.shown(to: services.settings.sight).write(to: &$0) }
    }

    private func detail(_ request: Request, _ context: ConsoleContext) async throws -> Response {
        try context.require(.read)
        _ = try QueryParameters(request, .init(single: []))
        guard let id = context.parameters.get("id").flatMap({ Digest128(uuid: $0.utf8) }) else {
            throw Problem.badRequest("a replay is named by its id, 8-4-4-4-12 hexadecimal digits, as the list gives it")
        }
        let found = try await services.reader.run { connection throws(PostgresError) in
            try ReplayDetail.read(connection, id)
        }
        guard let found = found?.shown(to: services.settings.sight) else {
            throw Problem.notFound("no replay has this id")
        }
        return JSONAnswer.of(found.json())
    }
}
