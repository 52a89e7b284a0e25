import DatabaseSupport
import Diagnosis
import Foundation
import Postgres
import Testing

@Suite("doctor: what is wrong in the tables is found", .timeLimit(.minutes(5)))
struct DoctorTests {
    /// What spoils a database, and how the finding begins that must come of it alone.
    struct Case: Sendable, CustomTestStringConvertible {
        var name: String
        var script: String
        var text: String

        init(_ name: String, _ script: String, _ text: String) {
            (self.name, self.script, self.text) = (name, script, text)
        }

        var testDescription: String { name }
    }

    private static let open =
        #"[{"handler": "orders", "circuit": "open", "next_probe": 30, "paused": false, "#
        + #""running": 0, "waiting": 0, "attempts": 0, "failed": 0}]"#
    private static let handler = "INSERT INTO upstream.handlers (name) VALUES ('orders');"
    private static let today = "date_trunc('day', now(), 'UTC')"

    /// Drops the partition of so many days from today.
    static func drop(_ days: Int) -> String {
        """
        DO $$ BEGIN EXECUTE (
            SELECT format('DROP TABLE upstream.%I', relname) FROM upstream.partitions()
            WHERE since = date_trunc('day', now(), 'UTC') + interval '\(days) days'); END $$;
        """
    }

    private static func deadLetters(_ count: Int) -> String {
        """
        \(handler)
        INSERT INTO upstream.dead_letters (
            handler, message_key, received_at, attempts, next_attempt_at, lease_token, error_group)
        SELECT 'orders', gen_random_uuid(), now(), 1, now(), 0, 'g' FROM generate_series(1, \(count));
        """
    }

    private static func delivery(_ age: String) -> String {
        """
        INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at)
        VALUES ('orders', gen_random_uuid(), now() - interval '\(age)', now());
        """
    }

    static let cases = [
        Case("no-workers", "DELETE FROM upstream.workers", "no worker is running"),
        Case("worker-silent", HealthySystem.worker("host:2", age: "1 min"), "worker host:2 has been silent since"),
        Case(
            "no-receiver",
            "UPDATE upstream.workers SET roles = '{dispatch}'",
            "no running worker receives"
        ),
        Case(
            "worker-versions-differ",
            HealthySystem.worker("host:2", version: "2.0.0"),
            "workers of different versions run: 1.0.0, 2.0.0"
        ),
        Case(
            "sender-unbound",
            "DELETE FROM upstream.workers; \(HealthySystem.worker(bound: 0))",
            "sender 1234567890 has no bound stream"
        ),
        Case(
            "worker-clock-differs",
            HealthySystem.worker("host:2", clockAhead: "-3456000"),
            "the clock of worker host:2 is 40 d behind the database's"
        ),
        Case("commits-stalled", HealthySystem.worker("host:2", inFlight: 7), "worker host:2 has 7 messages in flight"),
        Case(
            "messages-from-future",
            DoctorFixture.messages(1, from: "now() + interval '2 hours'"),
            "the newest message was received 2 h ahead"
        ),
        Case(
            "id-scopes-differ",
            "INSERT INTO upstream.senders VALUES ('1234567890', 'sender'), ('1234567890', 'device'); "
                + DoctorFixture.messages(2, from: "now() - interval '2 min'", over: "1 min")
                + "UPDATE upstream.messages SET message_key = upstream.message_key(sender_id, message_id) WHERE message_id = 'm0'",
            "messages of sender 1234567890 got keys of both id_scope within 10 minutes"
        ),
        Case(
            "handler-unclaimed",
            "\(handler) UPDATE upstream.handlers SET seen_at = now() - interval '1 day'; "
                + "INSERT INTO upstream.subscriptions VALUES ('orders', '*');",
            "no worker has run handler orders since"
        ),
        Case(
            "handler-paused",
            "\(handler) UPDATE upstream.handlers SET paused = true, paused_at = now() - interval '2 hours', "
                + "paused_reason = 'moving'",
            "handler orders has been paused for 2 h (moving); 0 deliveries wait"
        ),
        Case(
            "handler-failing",
            "\(handler) \(HealthySystem.worker("host:2", handlers: open))",
            "handler orders is failing: its circuit breaker is open, next probe in"
        ),
        Case(
            "certificate-ending",
            """
            UPDATE upstream.workers SET certificates = jsonb_build_array(
                jsonb_build_object('certificate', 'webhook', 'name', 'orders', 'ends_at',
                    extract(epoch FROM now() + interval '3 days 1 minute')::int8),
                jsonb_build_object('certificate', 'console', 'name', '', 'ends_at',
                    extract(epoch FROM now() + interval '15 days')::int8))
            """,
            "the certificate of the endpoint of handler orders ends in 3 d"
        ),
        Case("deliveries-old", "\(handler) \(delivery("1 hour"))", "the oldest delivery to handler orders has waited"),
        Case("dead-letters-growing", deadLetters(150), "150 deliveries gave up within the last hour"),
        Case("dead-letters", deadLetters(1), "there are 1 dead letter"),
        Case("no-retention-policy", "DELETE FROM upstream.retention_policy", "no retention policy is in force"),
        Case(
            "retention-late",
            "UPDATE upstream.retention_runs SET finished_at = now() - interval '3 days', started_at = now() - interval '3 days'",
            "the last complete run of retention was 3 d ago"
        ),
        Case(
            "attempts-undated",
            """
            INSERT INTO upstream.attempt_batches VALUES (
                now() + interval '1 year', 'orders', 'host:1', 'done', now(), now(), '{}', '{}', '{}');
            SELECT pg_stat_force_next_flush()
            """,
            "attempts lie in upstream.attempt_batches_rest"
        ),
        Case(
            "quarantine-surge",
            """
            INSERT INTO upstream.quarantine (
                sender_id, reason, detail, stanza, digest, times_seen, received_at, last_seen_at)
            SELECT '1', 'payload_not_json', '', '', int4send(n), 1, now(), now() FROM generate_series(1, 150) AS n
            """,
            "150 stanzas went to quarantine within the last hour, 0"
        ),
        Case(
            "conflict-surge",
            """
            INSERT INTO upstream.conflicts (
                message_key, sender_id, message_id, registration_token, device_key, category, received_at, fingerprint,
                times_seen, last_seen_at)
            SELECT gen_random_uuid(), '1', 'm', 't', gen_random_uuid(), 'c', now(), gen_random_uuid(), 1, now()
            FROM generate_series(1, 150)
            """,
            "150 messages reused a known id within the last hour"
        ),
        Case("no-partition-today", drop(0), "today (UTC) has no partition"),
        Case("no-partitions-ahead", drop(2), "partitions reach 1 day ahead"),
        Case(
            "sequence-nearly-used",
            "SELECT setval('upstream.audit_id_seq', 9000000000000000000)",
            "the sequence upstream.audit_id_seq has used 97 %"
        ),
        Case(
            "index-invalid",
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'upstream.quarantine_received_at_idx'::regclass",
            "the index upstream.quarantine_received_at_idx is invalid"
        ),
        Case(
            "schema-differs",
            "DELETE FROM upstream.schema_migrations WHERE version = (SELECT max(version) FROM upstream.schema_migrations)",
            "the schema is older than this binary"
        ),
        Case(
            "retention-held",
            """
            \(handler)
            SELECT upstream.ensure_partitions((now() - interval '40 days')::date, (now() - interval '40 days')::date);
            \(delivery("40 days"))
            """,
            "1 expired day can't be dropped ("
        ),
    ]

    @Test("each is found alone, with its name, its figures and a fix", arguments: cases)
    func finds(_ given: Case) async throws {
        let fixture = try await DoctorFixture()
        #expect(try await fixture.names() == [], "before")
        try await fixture.database.script(given.script)
        let diagnosis = try await fixture.examine()
        let finding = try #require(diagnosis.finding(given.name), "\(diagnosis.findings) \(diagnosis.unseen)")
        #expect(finding.text.hasPrefix(given.text), "\(finding.text)")
        #expect(!finding.fix.isEmpty && finding.fix.count < 300)
        let isAlsoOld = given.name == "retention-held" ? ["deliveries-old"] : []
        #expect(try await Set(fixture.names()) == Set([given.name] + isAlsoOld))
        #expect(diagnosis.unseen.isEmpty, "\(diagnosis.unseen)")
    }

    @Test("a day that a replay needs is held, and the replay named")
    func heldByReplay() async throws {
        let fixture = try await DoctorFixture()
        let day = "\(Self.today) - interval '40 days'"
        try await fixture.database.script(
            """
            SELECT upstream.ensure_partitions((\(day))::date, (\(day))::date);
            \(DoctorFixture.messages(3, from: day))
            INSERT INTO upstream.replays (
                name, kind, target, occupies, selection, options, state, created_by, planned,
                first_received_at, last_received_at
            ) SELECT 'again', 'output', 'r', '{}', '{}', '{}', 'paused', 'test', 3, min(received_at), max(received_at)
            FROM upstream.messages;
            INSERT INTO upstream.replay_messages (replay_id, chunk, received_at, message_key)
            SELECT r.replay_id, 0, array_agg(m.received_at ORDER BY m.received_at), array_agg(m.message_key ORDER BY m.received_at)
            FROM upstream.replays AS r, upstream.messages AS m GROUP BY 1
            """
        )
        let finding = try #require(try await fixture.examine().finding("retention-held"))
        #expect(finding.text.hasSuffix("since deliveries need them: replay again (3)"), "\(finding.text)")
        #expect(finding.fix.contains("replay cancel") && finding.fix.count < 300)
    }

    @Test("a machine whose clock is wrong finds out")
    func clock() async throws {
        let fixture = try await DoctorFixture()
        let ahead = try await fixture.examine(ahead: .seconds(600))
        #expect(ahead.finding("clock-differs")?.text == "this machine's clock is 10 min ahead of the database's")
        let behind = try await fixture.examine(ahead: .seconds(-60))
        #expect(behind.finding("clock-differs")?.text.contains("behind") == true)
    }

    @Test("a disk that the next days fill is found, by what the last days took")
    func disk() async throws {
        let fixture = try await DoctorFixture()
        try await fixture.database.script(DoctorFixture.messages(5_000, from: "\(Self.today) - interval '1 day'"))
        let size = try await fixture.database.integer(
            """
            SELECT pg_total_relation_size(relation) + pg_total_relation_size('upstream.message_ids')
            FROM upstream.partitions() WHERE since = \(Self.today) - interval '1 day'
            """
        )
        let day = try #require(size)
        let roomy = try await fixture.examine(free: day * 40)
        #expect(roomy.finding("disk-filling") == nil && roomy.finding("disk-nearly-full") == nil)
        let filling = try await fixture.examine(free: day * 10)
        #expect(filling.finding("disk-filling")?.text.hasPrefix("the disk is full in ") == true, "\(filling)")
        let full = try await fixture.examine(free: day * 2)
        #expect(full.finding("disk-nearly-full")?.severity == .critical)
        // Thirty days will be held, and the 31st before the first is dropped.
        #expect(filling.facts.first { $0.name == "growth" }?.value.contains(" a day, until ") == true)
    }

    @Test("dead rows that vacuum has not removed are found")
    func deadRows() async throws {
        let fixture = try await DoctorFixture()
        try await fixture.database.script(
            """
            ALTER TABLE upstream.quarantine SET (autovacuum_enabled = off);
            INSERT INTO upstream.quarantine (
                sender_id, reason, detail, stanza, digest, times_seen, received_at, last_seen_at)
            SELECT '1', 'payload_not_json', '', '', int4send(n), 1, now() - interval '2 days', now()
            FROM generate_series(1, 500) AS n;
            """
        )
        try await fixture.database.script("DELETE FROM upstream.quarantine; SELECT pg_stat_force_next_flush()")
        try await fixture.database.waitUntil(
            "SELECT n_dead_tup = 500 FROM pg_stat_all_tables WHERE relid = 'upstream.quarantine'::regclass"
        )
        var limits = DoctorFixture.limits
        limits.deadRows = 499
        let finding = try await fixture.examine(limits).finding("dead-rows")
        #expect(finding?.text == "upstream.quarantine has 500 dead rows beside 0 living ones")
        limits.deadRows = 500
        #expect(try await fixture.examine(limits).finding("dead-rows") == nil)
    }

    @Test("settings of the database, and a session idle in a transaction, are found")
    func sessions() async throws {
        let fixture = try await DoctorFixture()
        let name = try #require(try await fixture.database.text("SELECT current_database()::text"))
        var limits = DoctorFixture.limits
        limits.connections = 0
        #expect(try await fixture.names(limits) == ["connections-nearly-used"])
        let other = try await PostgresConnection.open(fixture.database.settings)
        try await other.run { connection throws(PostgresError) in
            try connection.script("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM upstream.handlers")
        }
        limits = DoctorFixture.limits
        #expect(try await fixture.names(limits) == [])
        limits.transaction = .zero
        #expect(try await fixture.names(limits) == ["transaction-old"])
        limits.idle = .zero
        #expect(try await fixture.names(limits) == ["idle-in-transaction"])
        await other.close()
        try await fixture.database.script(
            "ALTER DATABASE \(name) SET synchronous_commit = off; ALTER DATABASE \(name) SET default_transaction_read_only = on"
        )
        #expect(try await fixture.names() == ["database-read-only", "synchronous-commit-weak"])
    }

    @Test("a database without our schema is one finding, and what can't be looked at is said")
    func noSchema() async throws {
        let fixture = try await DoctorFixture()
        try await fixture.database.script("DROP SCHEMA upstream CASCADE")
        let diagnosis = try await fixture.examine()
        #expect(diagnosis.finding("schema-differs")?.text.contains("migrate up") == true)
        #expect(diagnosis.unseen.contains { $0.subject == "everything else" })
    }

    @Test("a subject that could not be looked at is a warning, and the rest is looked at all the same")
    func notLookedAt() async throws {
        let fixture = try await DoctorFixture()
        try await fixture.database.script("DELETE FROM upstream.workers; \(Self.drop(0))")
        let other = try await PostgresConnection.open(fixture.database.settings)
        try await other.run { connection throws(PostgresError) in
            try connection.script(
                """
                BEGIN; LOCK TABLE upstream.handlers, upstream.schema_migrations, upstream.conflicts IN ACCESS EXCLUSIVE MODE
                """
            )
        }
        let connection = try await PostgresConnection.open(fixture.database.settings)
        try await connection.run { connection throws(PostgresError) in
            try connection.script("SET statement_timeout = 300")
        }
        let diagnosis = try await Doctor(connection, limits: DoctorFixture.limits).examine()
        let unseen = diagnosis.findings.filter { $0.name.rawValue == "not-looked-at" }
        #expect(
            Set(unseen.map(\.text)) == [
                "schema could not be looked at: it took too long", "handlers could not be looked at: it took too long",
                "what retention would do could not be looked at: it took too long",
                "odd messages could not be looked at: it took too long",
            ],
            "\(diagnosis)"
        )
        #expect(unseen.allSatisfy { $0.severity == .warning && $0.fix.contains("--timeout") } && !diagnosis.isHealthy)
        #expect(diagnosis.finding("no-workers") != nil && diagnosis.finding("no-partition-today") != nil)
        await connection.close()
        await other.close()
    }

    @Test("the roles of roles.sql see enough, and what they don't see is said", arguments: ["w", "r"])
    func roles(_ role: String) async throws {
        let fixture = try await DoctorFixture()
        try await fixture.database.script(try DeployedRoles.scriptWithLogins())
        let diagnosis = try await fixture.examine(as: role)
        #expect(Set(diagnosis.findings.map(\.name.rawValue)) == ["fsync-off", "no-standby"], "\(diagnosis.findings)")
        let unseen = Set(diagnosis.unseen.map(\.subject))
        #expect(
            unseen == ["how long other roles' sessions and standbys wait", "free disk space"],
            "\(diagnosis.unseen)"
        )
        #expect(diagnosis.unseen.allSatisfy { $0.reason.contains("GRANT") })
        try await fixture.database.script("DELETE FROM upstream.workers; \(Self.handler) \(Self.delivery("1 hour"))")
        let names = try await fixture.examine(as: role).findings.map(\.name.rawValue)
        #expect(names.contains("no-workers") && names.contains("deliveries-old"), "\(names)")
    }
}

/// The folder of the package.
let projectFolder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()

@Suite("what doctor and audit say is documented")
struct DiagnosisDocumentationTests {
    @Test("docs/findings.md lists each finding with its severity, each check, and no others")
    func table() throws {
        let document = try String(contentsOf: projectFolder.appending(path: "docs/findings.md"), encoding: .utf8)
        let findings = document.matches(of: /(?m)^\| `([a-z-]+)` \| (critical|warning|note) \|/).map {
            "\($0.1) \($0.2)"
        }
        #expect(findings.sorted() == FindingName.allCases.map { "\($0.rawValue) \($0.severity.rawValue)" }.sorted())
        let start = try #require(document.range(of: "### audit: what it proves"))
        let checks = document[start.upperBound...].matches(of: /(?m)^\| `([a-z-]+)` \| [a-z]/).prefix(
            ConservationCheck.allCases.count
        )
        #expect(checks.map { String($0.1) }.sorted() == ConservationCheck.allCases.map(\.rawValue).sorted())
    }

    @Test("a test provokes each finding")
    func provoked() throws {
        let folder = projectFolder.appending(path: "Tests/DiagnosisTests")
        let files = try FileManager.default.contentsOfDirectory(atPath: folder.path)
        let code = try files.map { try String(contentsOf: folder.appending(path: $0), encoding: .utf8) }.joined()
        for name in FindingName.allCases { #expect(code.contains("\"\(name.rawValue)\""), "\(name.rawValue)") }
    }
}
