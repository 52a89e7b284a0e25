import MessageStore
import Postgres
import Resources
import Vocabulary

/// `GET overview`, `workers`, `senders`, `handlers`, `partitions` and `whoami`: the state of the whole.
struct StoreRoutes: EndpointGroup {
    let services: ConsoleServices

    var endpoints: [Endpoint] {
        [
            .get(
                "getOverview",
                "overview",
                "How things stand: rates, latency, streams, handlers, sizes.",
                .one("Overview")
            ) { _ in
                let overview = try await services.reader.withConnection { try await Overview.take($0) }
                return JSONAnswer.of(overview.json())
            },
            .get("listWorkers", "workers", "The workers, as they tell of themselves.", .page(of: WorkerRow.schema)) {
                _ in
                JSONAnswer.page(
                    try await services.reader.run { connection throws(PostgresError) in try WorkerTable.list(connection)
                    }
                )
            },
            .get("listSenders", "senders", "The senders, with their streams.", .page(of: SenderView.schema)) { _ in
                let (stored, workers) = try await services.reader.withConnection { connection in
                    (
                        try await StoredSender.list(connection),
                        try await connection.run { connection throws(PostgresError) in try WorkerTable.list(connection)
                        }
                    )
                }
                return JSONAnswer.page(SenderView.all(stored, workers))
            },
            .get(
                "listHandlers",
                "handlers",
                "The handlers, with what waits for them.",
                .page(of: HandlerView.schema)
            ) { _ in
                let views = try await services.reader.withConnection { connection in
                    try await HandlerView.list(connection, counted: Overview.countLimit)
                }
                return JSONAnswer.page(views)
            },
            .get("listPartitions", "partitions", "The days that are kept, and the policy.", .one("Partitions")) { _ in
                let view = try await services.reader.withConnection { try await RetentionView.take($0) }
                return JSONAnswer.of(view.json())
            },
            .get("getWhoAmI", "whoami", "Who asks, and with what rights.", .one("WhoAmI")) { request in
                let principal = try request.principal
                return JSONAnswer.object { json in
                    json.member("name", principal.name)
                    json.member("role", principal.role.rawValue)
                    json.member("rights", of: ConsoleRight.allCases.filter(principal.may).map(\.rawValue))
                }
            },
        ]
    }
}

/// A sender, from its messages and the workers' reports.
struct SenderView: Sendable {
    var senderID: String
    /// The scopes its messages' keys are derived from; empty before its first message.
    var idScopes: [String]
    /// Its streams over the living workers.
    var streams: WorkerReport.Streams

    static func all(_ stored: [StoredSender], _ workers: [WorkerRow]) -> [SenderView] {
        let streams = SenderStreams.sum(workers.filter(\.isAlive))
        let ids = Set(stored.map(\.senderID)).union(streams.map(\.sender))
        return ids.sorted().map { id in
            SenderView(
                senderID: id,
                idScopes: stored.first { $0.senderID == id }?.idScopes ?? [],
                streams: streams.first { $0.sender == id }
                    ?? WorkerReport.Streams(sender: id)
            )
        }
    }
}

/// The stored days and the retention policy.
struct RetentionView: Sendable {
    /// What the next run would do; nil without a policy, since then nothing is deleted.
    var plan: RetentionPlan?
    /// The policy in force, with its author.
    var policy: RetentionPolicyInForce?
    var lastRun: Timestamp?

    /// Reads the current state; counts stop at ``Overview/countLimit``.
    ///
    /// - Parameter connection: A session that may select from the schema's tables.
    /// - Throws: `PostgresError`
    /// - Returns: The state.
    static func take(_ connection: PostgresConnection) async throws(PostgresError) -> RetentionView {
        let retention = Retention(connection)
        let policy = try await retention.policy()
        // Without a policy nothing is too old.
        let forever = RetentionPolicy(messages: .seconds(3_000 * 86_400), dedupeWindow: .seconds(3_000 * 86_400))
        let plan = try await retention.plan(under: policy?.policy ?? forever, counted: Overview.countLimit)
        return RetentionView(plan: plan, policy: policy, lastRun: try await retention.lastRun())
    }
}
