import Hummingbird
import Postgres
import Replaying
import Resources
import Vocabulary

/// `GET replays` and `replays/{id}`.
struct ReplayRoutes: EndpointGroup {
    private static let limit = Parameter.limit(1_000)
    private static let id = Parameter.uuid("id", "Its id.") { Digest128(uuid: $0.utf8) }

    let services: ConsoleServices

    var endpoints: [Endpoint] {
        [
            .get(
                "listReplays",
                "replays",
                "Replays, the latest first.",
                [Self.limit],
                .page(of: Replay.schema),
                list
            ),
            .get(
                "getReplay",
                "replays/{id}",
                "A replay with its history.",
                [Self.id],
                .one(ReplayDetail.schema),
                detail
            ),
        ]
    }

    private func list(_ request: EndpointRequest) async throws -> Response {
        let limit = try request[Self.limit]
        let replays = try await services.reader.run { connection throws(PostgresError) in
            try ReplayTable.list(connection, limit: limit)
        }
        return JSONAnswer.page(replays.map { $0.shown(to: services.settings.sight) })
    }

    private func detail(_ request: EndpointRequest) async throws -> Response {
        let id = try request[Self.id]
        let found = try await services.reader.run { connection throws(PostgresError) in
            try ReplayDetail.read(connection, id)
        }
        guard let found = found?.shown(to: services.settings.sight) else {
            throw Problem.notFound("no replay has this id")
        }
        return JSONAnswer.of(found.json())
    }
}
