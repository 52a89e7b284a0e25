import DatabaseSupport
import Dispatcher
import IntegrationSupport
import LocalDatabase
import MessageStore
import Postgres
import Querying
import Testing

@testable import Replaying

/// One cluster for the whole suite; each test has a database of its own.
enum SharedCluster {
    static let cluster = LocalCluster.forTests("replay")
}

/// A database with messages and handlers, and shorthands for what the tests do with it.
struct ReplayFixture {
    let database: TestDatabase
    var settings: PostgresSettings { database.settings }
    var admin: PostgresConnection { database.admin }

    init() async throws {
        database = try await TestDatabase(on: SharedCluster.cluster)
        try await script(
            """
            SELECT upstream.ensure_partitions((now() - interval '2 days')::date, (now() + interval '1 day')::date);
            INSERT INTO upstream.handlers (name, registered_at)
            VALUES ('orders', now()), ('audit', now() - interval '10 days');
            INSERT INTO upstream.subscriptions VALUES ('orders', 'com.example.orders', false), ('audit', '*', true);
            """
        )
    }

    /// Stores messages, one per second up to now; every third is an order.
    func seed(_ count: Int, startingAt first: Int = 1) async throws {
        try await script(
            """
            INSERT INTO upstream.messages
            SELECT
                encode(substr(sha256(convert_to('1', 'UTF8') || '\\x00'::bytea || convert_to('m-' || n, 'UTF8')), 1, 16),
                    'hex')::uuid,
                '1', 'm-' || n, 'token-SECRET-' || n % 10,
                encode(substr(sha256(convert_to('token-SECRET-' || n % 10, 'UTF8')), 1, 16), 'hex')::uuid,
                CASE WHEN n % 3 = 0 THEN 'com.example.orders' ELSE 'com.example.chat' END,
                ('{"n":' || n || '}')::json, NULL, NULL, NULL, NULL, now() - (n || ' seconds')::interval
            FROM generate_series(\(first), \(first + count - 1)) AS n
            """
        )
    }

    func script(_ sql: String) async throws { try await database.script(sql) }

    func integer(_ sql: String) async throws -> Int {
        Int(try await database.integer("SELECT (\(sql))::bigint") ?? -1)
    }

    func texts(_ sql: String) async throws -> [String] { try await database.texts(sql) }

    func request(
        _ name: String = "r",
        _ target: ReplayRequest.Target = .handlers([], .all),
        _ change: (inout ReplayRequest) -> Void = { _ in }
    ) -> ReplayRequest {
        var request = ReplayRequest(name: name, filter: MessageFilter(), target: target, by: .tester)
        change(&request)
        return request
    }

    @discardableResult
    func plan(_ request: ReplayRequest, isDryRun: Bool = false) async throws -> ReplayPlan {
        try await admin.inTransaction { connection throws(PostgresError) in
            try ReplayPlanner.plan(connection, request, isDryRun: isDryRun)
        }.get()
    }

    @discardableResult
    func apply(_ event: ReplayEvent, _ name: String = "r") async throws -> Replay {
        try await admin.inTransaction { connection throws(PostgresError) in
            try ReplayTable.apply(connection, event, to: name, by: .tester)
        }.get().replay
    }

    func replay(_ name: String = "r") async throws -> Replay {
        let found = try await admin.run { connection throws(PostgresError) in try ReplayTable.find(connection, name) }
        return try #require(found)
    }

    /// A runner in this process.
    func runner(
        _ owner: String = "a",
        lease: Duration = .seconds(15),
        deliveries: Int = 1_000_000,
        intake: (any ReplayIntake)? = nil
    ) -> ReplayRunner {
        var settings = ReplayRunner.Settings(owner: owner)
        settings.lease = lease
        settings.checkpoint = .milliseconds(20)
        settings.deliveries = deliveries
        return ReplayRunner(
            PostgresClient(self.settings),
            settings: settings,
            logger: .quiet,
            intake: intake
        )
    }

    func take(_ name: String = "r", owner: String, length: Duration = .seconds(15)) async throws -> ReplayLease {
        let id = try await replay(name).id
        let acquisition = try await admin.run { connection throws(PostgresError) in
            try ReplayLease.take(connection, id, owner: owner, length: length)
        }
        guard case .taken(let lease, _) = acquisition else { throw NotTaken(found: "\(acquisition)") }
        return lease
    }

    struct NotTaken: Error {
        var found: String
    }

    func step(_ lease: ReplayLease, from position: Int64, count: Int64) async throws -> HandlerFeed.Step {
        try await admin.run { connection throws(PostgresError) in
            try HandlerFeed.step(connection, lease, from: position, count: count).step
        }
    }

    /// Records every delivery that is ever queued, even if it is deleted.
    func logDeliveries() async throws {
        try await script(
            """
            CREATE TABLE public.queued (message_key uuid, handler text, replay_id uuid);
            CREATE FUNCTION public.log_queued() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN INSERT INTO public.queued VALUES (NEW.message_key, NEW.handler, NEW.replay_id); RETURN NEW; END $$;
            CREATE TRIGGER log_queued AFTER INSERT ON upstream.deliveries FOR EACH ROW EXECUTE FUNCTION public.log_queued();
            """
        )
    }
}

extension AuditAuthor {
    /// Who acts in the tests.
    static let tester = AuditAuthor("tester@test", via: .command)
}
