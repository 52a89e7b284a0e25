import DatabaseSupport
import Dispatcher
import Foundation
import Ingest
import LocalDatabase
import MessageStore
import Postgres
import Testing
import Vocabulary

extension StoreFixture {
    /// Applies `deploy/roles.sql`, twice, and makes a role within each of its two: `w` and `r`.
    func addRoles() async throws {
        let roles = try DeployedRoles.scriptWithLogins()
        try await script(roles)
        try await script(roles)
    }

    /// How to connect as one of the roles.
    func settings(as role: String) throws -> PostgresSettings {
        try PostgresSettings(url: url.replacingOccurrences(of: "user=upstream", with: "user=\(role)"))
    }
}

@Suite("the roles suffice, and can do no more")
struct RoleTests {
    private func refuses(_ connection: PostgresConnection, _ sql: String) async {
        let error = await #expect(throws: PostgresError.self, "\(sql)") {
            try await connection.run { connection throws(PostgresError) in try connection.script(sql) }
        }
        #expect(error?.failureClass == .permission, "\(sql): \(String(describing: error))")
    }

    /// All that a role has been granted, besides partitions, which are never named.
    private func grants(_ role: String) -> String {
        """
        SELECT string_agg(line, E'\\n' ORDER BY line) FROM (
            SELECT relname || ': ' || string_agg(lower(privilege_type), ' ' ORDER BY privilege_type) AS line
            FROM pg_class, aclexplode(relacl)
            WHERE relnamespace = 'upstream'::regnamespace AND grantee = '\(role)'::regrole AND NOT relispartition
            GROUP BY relname
            UNION ALL
            SELECT proname || ': ' || lower(privilege_type) FROM pg_proc, aclexplode(proacl)
            WHERE pronamespace = 'upstream'::regnamespace AND grantee = '\(role)'::regrole
            UNION ALL
            SELECT 'schema: ' || lower(privilege_type) FROM pg_namespace, aclexplode(nspacl)
            WHERE nspname = 'upstream' AND grantee = '\(role)'::regrole
        ) AS lines
        """
    }

    @Test("the worker's role has what is listed here, and nothing else")
    func workersGrants() async throws {
        let fixture = try await StoreFixture()
        try await fixture.addRoles()
        #expect(
            try await fixture.text(grants("upstream_worker")) == """
                archive_points: insert select update
                attempt_batches: insert select
                attempts: select
                channel_bindings: delete insert select
                conflicts: insert select update
                dead_letters: delete insert select update
                dead_messages: select
                deliveries: delete insert select update
                delivery_blocks: delete insert select update
                drop_partition: execute
                ensure_attempts: execute
                ensure_partitions: execute
                ensure_samples: execute
                finish_retention_request: execute
                handler_workers: delete insert select update
                handlers: delete insert select update
                keep_dead_messages: execute
                lease_tokens: usage
                message_ids: insert select
                messages: insert select
                purge_attempts: execute
                purge_audit: execute
                purge_conflicts: execute
                purge_dead_letters: execute
                purge_dead_messages: execute
                purge_erasures: execute
                purge_message_ids: execute
                purge_quarantine: execute
                purge_samples: execute
                quarantine: insert select update
                raise_retention: execute
                record_audit: execute
                replay_events: insert select
                replay_messages: delete insert select
                replays: insert select update
                retention_policy: select
                retention_runs: insert select
                samples: insert select
                schema: usage
                schema_migrations: select
                senders: insert select
                subscriptions: delete insert select update
                take_retention_request: execute
                workers: delete insert select update
                """
        )
    }

    @Test("the rights that check looks for are those that the worker's role is granted")
    func checkedRights() async throws {
        let fixture = try await StoreFixture()
        try await fixture.addRoles()
        let granted = try #require(try await fixture.text(grants("upstream_worker"))).split(separator: "\n")
            .flatMap { line in
                let parts = line.split(separator: ":").map { $0.drop { $0 == " " } }
                let object = parts[0] == "schema" ? "upstream" : String(parts[0])
                return parts[1].split(separator: " ").map { "\($0.uppercased()) \(object)" }
            }
        #expect(Set(granted) == Set(WorkerRight.all.map { "\($0.privilege) \($0.object)" }))
        #expect(try await WorkerRight.missing(on: fixture.admin) == [])
        let worker = try await PostgresConnection.open(try fixture.settings(as: "w"))
        #expect(try await WorkerRight.missing(on: worker) == [])
        let reader = try await PostgresConnection.open(try fixture.settings(as: "r"))
        let missing = try await WorkerRight.missing(on: reader)
        #expect(missing.contains("INSERT ON upstream.messages") && !missing.contains("SELECT ON upstream.messages"))
        #expect(missing.contains("EXECUTE ON FUNCTION upstream.ensure_partitions"))
        try await fixture.script("REVOKE USAGE ON SCHEMA upstream FROM upstream_worker")
        #expect(try await WorkerRight.missing(on: worker) == ["USAGE ON SCHEMA upstream"])
    }

    @Test("what check tries with the worker's role works, leaves nothing, and fails where a right is missing")
    func trials() async throws {
        let fixture = try await StoreFixture()
        try await fixture.addRoles()
        let worker = try await PostgresConnection.open(try fixture.settings(as: "w"))
        let before = try await fixture.count("messages")
        let days = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'upstream.messages'::regclass"
        let partitions = try await fixture.integer(days)
        try await TrialRun.store(worker, sender: "1234567890")
        try await TrialRun.partitions(worker)
        #expect(try await TrialRun.attempts(worker))
        #expect(try await fixture.count("messages") == before)
        #expect(try await fixture.integer(days) == partitions)
        for table in ["message_ids", "conflicts", "quarantine", "senders", "deliveries"] {
            #expect(try await fixture.count(table) == 0, "\(table)")
        }
        try await fixture.script("REVOKE INSERT ON upstream.quarantine FROM upstream_worker")
        var error = await #expect(throws: PostgresError.self) { try await TrialRun.store(worker, sender: "1") }
        #expect(error?.failureClass == .permission)
        try await fixture.script("REVOKE EXECUTE ON FUNCTION upstream.ensure_attempts FROM upstream_worker")
        error = await #expect(throws: PostgresError.self) { try await TrialRun.attempts(worker) }
        #expect(error?.failureClass == .permission)
        try await TrialRun.partitions(worker)
        #expect(await worker.isOpen)
        #expect(try await fixture.count("message_ids") == 0)
    }

    @Test("a table of attempts that is in use is no failure of the trial, and keeps nothing of the messages'")
    func busyAttempts() async throws {
        let fixture = try await StoreFixture()
        let reader = try await PostgresConnection.open(fixture.settings)
        try await reader.run { connection throws(PostgresError) in
            try connection.script("BEGIN; LOCK TABLE upstream.attempt_batches IN ACCESS SHARE MODE")
        }
        #expect(try await TrialRun.attempts(fixture.admin) == false)
        try await TrialRun.partitions(fixture.admin)
        await reader.close()
    }

    @Test("receive, dispatch and retention work with the worker's role")
    func workerWorks() async throws {
        let fixture = try await StoreFixture()
        try await fixture.addRoles()
        let settings = try fixture.settings(as: "w")
        let deliveries = PostgresDeliveryStore(settings)
        _ = try await deliveries.register([.make("orders")])
        let store = MessageStore(settings, senders: StoreFixture.senders)
        let first = IncomingMessage.make(1)
        let old = IncomingMessage.now() - 50 * 86_400_000_000
        let far = IncomingMessage.make(2, receivedAt: old)
        let batch = [
            first, first.copy(), first.copy(fingerprint: 3), far, .make(3, receivedAt: old, quarantine: .duplicateKey),
            far.copy(fingerprint: 5),
        ]
        #expect(
            try await store.commit(batch) == [.stored, .duplicate, .conflict, .stored, .quarantined, .conflict]
        )
        let failure = HandlerFailure(group: "g", detail: "d")
        var claimed = try await deliveries.claim(.make())
        #expect(claimed.count == 2)
        _ = try await deliveries.settle(claimed.map { $0.settled(.retry(after: .zero, failure)) }, of: "orders")
        claimed = try await deliveries.claim(.make())
        _ = try await deliveries.settle(claimed.map { $0.settled(.dead(failure, isCounted: true)) }, of: "orders")
        let worker = try await PostgresConnection.open(settings)
        #expect(try await DeadLetters(worker).discard(DeadLetterFilter(), by: .tester) == 2)
        #expect(try await StoreHealth.check(worker) == .ready)
        #expect(try await Retention(worker).raise(to: .usual))
        let report = try await Retention(worker).run()
        let upkeep = try await StoreUpkeep.look(worker)
        #expect(upkeep.daysAhead == 7 && upkeep.lastRetention != nil)
        #expect(report.dropped.count == 1 && report.isComplete)
        #expect((report.ledger, report.conflicts, report.quarantine) == (1, 1, 1))
        #expect(try await fixture.count("messages") == 1)
        #expect(try await StoreStatistics.take(worker).table("messages") != nil)
    }

    @Test("the worker's role can neither change nor delete what is stored, nor make anything")
    func workerRefused() async throws {
        let fixture = try await StoreFixture()
        try await fixture.addRoles()
        _ = try await fixture.store().commit([.make(1)])
        let worker = try await PostgresConnection.open(try fixture.settings(as: "w"))
        for sql in [
            "DELETE FROM upstream.messages", "UPDATE upstream.messages SET category = 'x'",
            "DROP TABLE upstream.messages",
            "TRUNCATE upstream.messages", "DELETE FROM upstream.message_ids",
            "UPDATE upstream.message_ids SET received_at = now()", "DELETE FROM upstream.conflicts",
            "DELETE FROM upstream.quarantine", "TRUNCATE upstream.quarantine", "CREATE TABLE upstream.x ()",
            "INSERT INTO upstream.schema_migrations VALUES ('9', '')", "DELETE FROM upstream.replays",
            "DELETE FROM upstream.retention_runs", "DELETE FROM upstream.dead_messages",
            "UPDATE upstream.retention_policy SET messages = '1 day'", "DELETE FROM upstream.retention_policy",
            "SELECT upstream.set_retention('30 days', '35 days', '90 days', '7 days')",
            "SELECT upstream.retention_end('messages')",
            "ALTER TABLE upstream.deliveries ADD x int", "CREATE ROLE x", "SELECT FROM upstream.audit",
            "INSERT INTO upstream.audit (at, who, role, via, action, subject) VALUES (now(), '', '', 'command', '', '')",
            "DELETE FROM upstream.audit", "TRUNCATE upstream.audit", "UPDATE upstream.audit SET who = 'x'",
            "SELECT FROM upstream.maintenance_requests", "UPDATE upstream.maintenance_requests SET state = 'done'",
            "SELECT upstream.request_maintenance('retention', NULL, 'x', 'y')",
        ] {
            await refuses(worker, sql)
        }
        let erasure = Erasure(worker, token: [UInt8]("token-SECRET".utf8))
        let error = await #expect(throws: PostgresError.self) { try await erasure.run(by: .tester) }
        #expect(error?.failureClass == .permission)
    }

    @Test(
        "the schema's owner, no superuser, grants the rights after an upgrade, where the roles that hold them are there"
    )
    func owner() async throws {
        // Roles belong to the whole cluster, and here three of them have to be missing.
        let cluster = LocalCluster.forTests("owner")
        defer { cluster.stop() }
        let fixture = try await StoreFixture(migrated: false, on: cluster)
        try await fixture.script(
            """
            CREATE ROLE keeper LOGIN;
            DO $$ BEGIN EXECUTE format('ALTER DATABASE %I OWNER TO keeper', current_database()); END $$
            """
        )
        let roles = try DeployedRoles.script()
        let keeper = try await PostgresConnection.open(try fixture.settings(as: "keeper"))
        func run() async throws(PostgresError) {
            try await keeper.run { connection throws(PostgresError) in try connection.script(roles) }
        }
        _ = try await Migrator().up(keeper)
        // Without the roles that hold the rights nothing can be done.
        let error = await #expect(throws: PostgresError.self) { try await run() }
        #expect(error?.failureClass == .permission)
        try await fixture.script(
            """
            CREATE ROLE upstream_worker; CREATE ROLE upstream_reader; CREATE ROLE upstream_console;
            CREATE ROLE mine LOGIN IN ROLE upstream_worker
            """
        )
        for _ in 0..<2 { try await run() }
        let mine = try await PostgresConnection.open(try fixture.settings(as: "mine"))
        #expect(try await WorkerRight.missing(on: mine) == [])
        let made =
            "SELECT count(*) FROM pg_roles WHERE rolname IN ('upstream_owner', 'upstream-worker', 'upstream-console')"
        #expect(try await fixture.integer(made) == 0)
        // One who signs in is there, and has no rights: the owner may not give them, and the rest is done.
        try await fixture.script("CREATE ROLE \"upstream-worker\" LOGIN")
        try await run()
        try await fixture.script(roles)
        #expect(try await fixture.integer(made) == 3)
        let worker = try await PostgresConnection.open(try fixture.settings(as: "upstream-worker"))
        #expect(try await WorkerRight.missing(on: worker) == [])
        for connection in [keeper, mine, worker, fixture.admin] { await connection.close() }
    }

    @Test("the reader reads everything, partitions to come included")
    func readerReads() async throws {
        let fixture = try await StoreFixture()
        try await fixture.addRoles()
        let later = IncomingMessage.now() + 20 * 86_400_000_000
        _ = try await fixture.store().commit([.make(1), .make(2, receivedAt: later)])
        let reader = try await PostgresConnection.open(try fixture.settings(as: "r"))
        let tables = try await fixture.text(
            """
            SELECT string_agg(relname, ' ') FROM pg_class
            WHERE relnamespace = 'upstream'::regnamespace AND relkind IN ('r', 'p', 'v', 'm')
            """
        )
        let names = try #require(tables).split(separator: " ").map(String.init)
        #expect(names.count > 18)
        for name in names {
            _ = try await reader.run { connection throws(PostgresError) in
                try connection.query("SELECT * FROM upstream.\(name) LIMIT 1")
            }
        }
        let token = try await reader.run { connection throws(PostgresError) in
            try connection.query("SELECT registration_token FROM upstream.messages LIMIT 1").value(String?.self)
        }
        #expect(token == "token-SECRET", "the reader sees tokens: roles.sql says to whom to give it")
        #expect(try await StoreStatistics.take(reader).tables.count > 5)
        #expect(try await Retention(reader).plan(under: .usual).partitions.count == 10)
        #expect(try await Retention(reader).policy() == nil)
    }

    @Test("the reader writes nothing and calls nothing that does")
    func readerRefused() async throws {
        let fixture = try await StoreFixture()
        try await fixture.addRoles()
        let reader = try await PostgresConnection.open(try fixture.settings(as: "r"))
        for table in [
            "messages", "message_ids", "conflicts", "quarantine", "deliveries", "dead_letters", "handlers", "replays",
        ] {
            await refuses(reader, "DELETE FROM upstream.\(table)")
            await refuses(reader, "TRUNCATE upstream.\(table)")
        }
        for sql in [
            "INSERT INTO upstream.handlers (name) VALUES ('x')", "UPDATE upstream.messages SET category = 'x'",
            "SELECT nextval('upstream.lease_tokens')", "CREATE TABLE upstream.x ()",
            "SELECT upstream.ensure_partitions(current_date, current_date)",
            "SELECT upstream.drop_partition('2020-01-01')",
            "SELECT upstream.purge_message_ids(0, 1)", "SELECT upstream.purge_conflicts(1)",
            "SELECT upstream.purge_quarantine(1)", "SELECT upstream.purge_dead_letters(1)",
            "SELECT upstream.purge_dead_messages(0, 1)", "SELECT upstream.keep_dead_messages('2020-01-01', 1)",
            "SELECT upstream.raise_retention('30 days', '35 days', '90 days', '7 days')",
            "SELECT upstream.request_maintenance('retention', NULL, 'x', 'y')",
            "SELECT upstream.take_retention_request()",
            // These run with the caller's rights.
            """
            SELECT upstream.store_conflicts(
                ARRAY['00000000-0000-0000-0000-000000000001'::uuid], ARRAY['00000000-0000-0000-0000-000000000001'::uuid],
                ARRAY[now()], ARRAY['s'], ARRAY['i'], ARRAY['t'], ARRAY['00000000-0000-0000-0000-000000000001'::uuid],
                ARRAY['c'], ARRAY['{}'], ARRAY[NULL::text], ARRAY[NULL::text], ARRAY[NULL::text], ARRAY[NULL::text])
            """,
        ] {
            await refuses(reader, sql)
        }
    }
}
