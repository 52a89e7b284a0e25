import Postgres
import Replaying
import Resources

/// `GET replays` and `replays/{id}`.
enum ReplayRoutes {
    private static let limit = Parameter.limit(1_000)
    private static let id = Parameter.uuid("id", "Its id.")

    static let endpoints: [Endpoint] = [
        .get("listReplays", "replays", "Replays, the latest first.", .page(of: Replay.schema), [limit]) { request in
            let limit = try request[limit]
            let replays = try await request.services.reader.run { connection throws(PostgresError) in
                try ReplayTable.list(connection, limit: limit)
            }
            return .page(replays.map { $0.shown(to: request.services.sight) })
        },
        .get("getReplay", "replays/{id}", "A replay with its history.", .one(ReplayDetail.schema), [id]) { request in
            let id = try request[id]
            let found = try await request.services.reader.run { connection throws(PostgresError) in
                try ReplayDetail.read(connection, id)
            }
            guard let found else { throw Problem.notFound("no replay has this id") }
            return .json(found.shown(to: request.services.sight).json())
        },
    ]
}
