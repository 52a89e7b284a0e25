import Hummingbird
import MessageStore
import Postgres
import Querying
import Resources
import Vocabulary

/// `GET overview`, `workers`, `senders`, `handlers` and `partitions`.
struct StoreRoutes: ConsoleRoutes {
    let services: ConsoleServices

    init(_ services: ConsoleServices) { self.services = services }

    func add(to router: RouterGroup<ConsoleContext>) {
        router.get("overview", use: overview)
        router.get("workers", use: workers)
        router.get("senders", use: senders)
        router.get("handlers", use: handlers)
        router.get("partitions", use: partitions)
    }

    private func overview(_ request: Request, _ context: ConsoleContext) async throws -> Response {
        try context.require(.read)
        _ = try QueryParameters(request, .init(single: []))
        let overview = try await services.reader.withConnection { try await Overview.take($0) }
        return JSONAnswer.object { overview.write(to: &$0) }
    }

    private func workers(_ request: Request, _ context: ConsoleContext) async throws -> Response {
        try context.require(.read)
        _ = try QueryParameters(request, .init(single: []))
        let workers = try await services.reader.run { connection throws(PostgresError) in
            try WorkerTable.list(connection)
        }
        return JSONAnswer.list(workers, next: nil) { $1.write(to: &$0) }
    }

    private func senders(_ request: Request, _ context: ConsoleContext) async throws -> Response {
        try context.require(.read)
        _ = try QueryParameters(request, .init(single: []))
        let (stored, workers) = try await services.reader.withConnection { connection in
            let stored = try await StoredSender.list(connection)
            let workers = try await connection.run { connection throws(PostgresError) in
                try WorkerTable.list(connection)
            }
            return (stored, workers)
        }
        let senders = SenderView.all(stored, workers)
        return JSONAnswer.list(senders, next: nil) { $1.write(to: &$0) }
    }

    private func handlers(_ request: Request, _ context: ConsoleContext) async throws -> Response {
        try context.require(.read)
        _ = try QueryParameters(request, .init(single: []))
        let views = try await services.reader.withConnection { connection in
            try await HandlerView.list(connection, counted: Overview.countLimit)
        }
        return JSONAnswer.list(views, next: nil) { $1.write(to: &$0) }
    }

    private func partitions(_ request: Request, _ context: ConsoleContext) async throws -> Response {
        try context.require(.read)
        _ = try QueryParameters(request, .init(single: []))
        let view = try await services.reader.withConnection { try await RetentionView.take($0) }
        return JSONAnswer.object { view.write(to: &$0) }
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
                    ?? WorkerReport.Streams(sender: id, connecting: 0, bound: 0, draining: 0)
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
