import MessageStore
import Postgres
import Resources
import Vocabulary

/// `GET overview`, `workers`, `senders`, `handlers`, `partitions`, `audit` and `whoami`: the state of the whole.
enum StoreRoutes {
    static let endpoints: [Endpoint] = [
        .get(
            "getOverview",
            "overview",
            "How things stand: rates, latency, streams, handlers, sizes.",
            .one(Overview.schema)
        ) { request in
            .json(try await request.services.reader.withConnection { try await Overview.take($0) }.json())
        },
        .get("listWorkers", "workers", "The workers, as they tell of themselves.", .page(of: WorkerRow.schema)) {
            .page(try await $0.services.reader.withConnection { try await WorkerRow.all($0) })
        },
        .get("listSenders", "senders", "The senders, with their streams.", .page(of: SenderView.schema)) { request in
            .page(try await request.services.reader.withConnection { try await SenderView.list($0) })
        },
        .get("listHandlers", "handlers", "The handlers, with what waits for them.", .page(of: HandlerView.schema)) {
            request in
            let views = try await request.services.reader.withConnection { connection in
                try await HandlerView.list(connection, counted: Overview.countLimit)
            }
            return .page(views)
        },
        .get("listPartitions", "partitions", "The days that are kept, and the policy.", .one(RetentionView.schema)) {
            request in
            .json(try await request.services.reader.withConnection { try await RetentionView.take($0) }.json())
        },
        .list("listAudit", Lists.audit, "What people did, the latest first.", right: .audit),
        .get("getWhoAmI", "whoami", "Who asks, and with what rights.", .one(Principal.schema)) { request in
            .json(try request.principal.json())
        },
    ]
}

/// A sender, from its messages and the workers' reports.
struct SenderView: Sendable {
    var senderID: String
    /// The scopes its messages' keys are derived from; empty before its first message.
    var idScopes: [String]
    /// Its streams over the living workers.
    var streams: WorkerReport.Streams

    static func list(_ connection: PostgresConnection) async throws(PostgresError) -> [SenderView] {
        let stored = try await StoredSender.list(connection)
        let streams = try await WorkerRow.all(connection).streams
        return Set(stored.map(\.senderID)).union(streams.map(\.sender)).sorted().map { id in
            SenderView(
                senderID: id,
                idScopes: stored.first { $0.senderID == id }?.idScopes ?? [],
                streams: streams.first { $0.sender == id } ?? WorkerReport.Streams(sender: id)
            )
        }
    }
}

/// The stored days and the retention policy.
struct RetentionView: Sendable {
    /// What the next run would do; without a policy nothing is too old.
    var plan: RetentionPlan
    /// The policy in force, with its author.
    var policy: RetentionPolicyInForce?
    var lastRun: Timestamp?

    /// Reads the current state; counts stop at ``Overview/countLimit``.
    static func take(_ connection: PostgresConnection) async throws(PostgresError) -> RetentionView {
        let retention = Retention(connection)
        let policy = try await retention.policy()
        let forever = RetentionPolicy(messages: .seconds(3_000 * 86_400), dedupeWindow: .seconds(3_000 * 86_400))
        let plan = try await retention.plan(under: policy?.policy ?? forever, counted: Overview.countLimit)
        return RetentionView(plan: plan, policy: policy, lastRun: try await retention.lastRun())
    }
}
