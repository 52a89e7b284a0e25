import Ingest
import MessageStore
import Postgres
import Testing
import Vocabulary

@Suite("one policy in the database says what is kept, and its clock what is old")
struct RetentionPolicyTests {
    private static let day: Int64 = 86_400_000_000

    private static func policy(_ messages: Int, _ window: Int, _ dead: Int, _ attempts: Int = 7) -> RetentionPolicy {
        RetentionPolicy(
            messages: .seconds(messages * 86_400),
            dedupeWindow: .seconds(window * 86_400),
            deadLetters: .seconds(dead * 86_400),
            attempts: .seconds(attempts * 86_400)
        )
    }

    @Test("without a policy nothing is deleted, whoever asks")
    func none() async throws {
        let fixture = try await StoreFixture()
        _ = try await fixture.store().commit([.make(1, receivedAt: IncomingMessage.now() - 400 * Self.day)])
        let retention = Retention(fixture.admin, pace: .brisk)
        #expect(try await retention.policy() == nil)
        let report = try await retention.run()
        #expect(report.refusal == .noPolicy && !report.isComplete && report.dropped.isEmpty)
        for call in [
            "drop_partition('2020-01-01')", "keep_dead_messages('2020-01-01', 1)", "purge_message_ids(0, 10)",
            "purge_conflicts(1)", "purge_quarantine(1)", "purge_dead_letters(1)",
        ] {
            let error = await #expect(throws: PostgresError.self) {
                try await fixture.script("SELECT upstream.\(call)")
            }
            #expect(error?.sqlState == "55000", "\(call)")
        }
        #expect(try await fixture.count("messages") == 1)
    }

    @Test("a worker's start makes each time longer by itself, and none shorter")
    func raising() async throws {
        let fixture = try await StoreFixture()
        try await fixture.addRoles()
        let worker = try await PostgresConnection.open(try fixture.settings(as: "w"))
        let retention = Retention(worker)
        #expect(try await retention.raise(to: Self.policy(30, 35, 90)))
        #expect(try await retention.policy()?.policy == Self.policy(30, 35, 90))
        #expect(try await retention.policy()?.setBy == "w")
        #expect(try await fixture.text("SELECT messages::text FROM upstream.retention_policy") == "30 days")
        try await fixture.script("UPDATE upstream.retention_policy SET set_at = now() - interval '1 hour'")
        #expect(try await retention.raise(to: Self.policy(7, 28, 10, 0)) == false)
        let age = try #require(try await retention.policy()?.age)
        #expect(age > .seconds(3_599), "what changes nothing is not set")
        #expect(try await retention.raise(to: Self.policy(20, 60, 10)))
        #expect(try await retention.policy()?.policy == Self.policy(30, 60, 90))
        #expect(try await retention.raise(to: Self.policy(60, 60, 100, 8)))
        #expect(try await retention.policy()?.policy == Self.policy(60, 60, 100, 8))
        #expect(try #require(try await retention.policy()?.age) < .seconds(600))
        #expect(
            Self.policy(60, 60, 100).longer(than: Self.policy(30, 60, 90)).map(\.key) == ["messages", "dead_letters"]
        )
        // Shorter only by the owner.
        let error = await #expect(throws: PostgresError.self) {
            try await retention.set(Self.policy(30, 35, 90), by: .tester)
        }
        #expect(error?.failureClass == .permission)
        try await Retention(fixture.admin).set(Self.policy(30, 35, 90, 0), by: .tester)
        #expect(try await retention.policy()?.policy == Self.policy(30, 35, 90, 0))
    }

    @Test("workers that start at once, each with its own file, come to the longest of each time")
    func atOnce() async throws {
        let fixture = try await StoreFixture()
        let files = [
            Self.policy(30, 35, 90), Self.policy(60, 65, 30), Self.policy(7, 100, 20), Self.policy(45, 45, 200),
        ]
        try await withThrowingTaskGroup(of: Void.self) { group in
            for file in files + files {
                let settings = fixture.settings
                group.addTask {
                    let connection = try await PostgresConnection.open(settings)
                    _ = try await Retention(connection).raise(to: file)
                    await connection.close()
                }
            }
            try await group.waitForAll()
        }
        #expect(try await Retention(fixture.admin).policy()?.policy == Self.policy(60, 100, 200))
        #expect(try await fixture.count("retention_policy") == 1)
    }

    @Test(
        "the database takes no policy that no configuration may have",
        arguments: [(0, 35, 90), (30, 27, 90), (40, 35, 90), (30, 35, 0), (40_000, 40_000, 90)]
    )
    func impossible(messages: Int, window: Int, dead: Int) async throws {
        let fixture = try await StoreFixture()
        let policy = Self.policy(messages, window, dead)
        await #expect(throws: PostgresError.self) { try await Retention(fixture.admin).set(policy, by: .tester) }
        await #expect(throws: PostgresError.self) { _ = try await Retention(fixture.admin).raise(to: policy) }
        await #expect(throws: PostgresError.self) {
            try await fixture.script(
                """
                INSERT INTO upstream.retention_policy VALUES ('30 days', '35 days', '90 days', '0');
                INSERT INTO upstream.retention_policy VALUES ('30 days', '35 days', '90 days', '0')
                """
            )
        }
        #expect(try await fixture.count("retention_policy") == 0)
    }

    @Test(
        "a direct call takes nothing that the policy keeps",
        arguments: [
            "drop_partition(today)", "drop_partition(today - 1)", "drop_partition(today - 30)", "drop_partition(NULL)",
            "drop_partition(today - 59)", "keep_dead_messages(today - 59, 1)", "keep_dead_messages(NULL, 1)",
        ]
    )
    func direct(call: String) async throws {
        let fixture = try await StoreFixture()
        try await Retention(fixture.admin).set(Self.policy(60, 65, 90), by: .tester)
        let error = await #expect(throws: PostgresError.self) {
            try await fixture.script(
                "SELECT upstream.\(call) FROM (SELECT (now() AT TIME ZONE 'UTC')::date AS today) AS days"
            )
        }
        #expect(error?.sqlState == "22023")
    }

    @Test("each row and each day goes at the policy's very end")
    func exact() async throws {
        let fixture = try await DeliveriesFixture()
        let store = fixture.store
        let past = UTCDay(number: UTCDay.today().number - 60).start.microseconds
        let known = IncomingMessage.make(1, receivedAt: past)
        _ = try await fixture.writer.commit([
            known, known.copy(receivedAt: past, fingerprint: 9), .make(2, receivedAt: past, quarantine: .duplicateKey),
        ])
        try await store.script(
            """
            DELETE FROM upstream.deliveries;
            INSERT INTO upstream.dead_letters (
                handler, message_key, received_at, attempts, next_attempt_at, lease_token, error_group, died_at)
            SELECT 'orders', gen_random_uuid(), received_at, 1, now(), 1, 'g', received_at FROM upstream.messages
            """
        )
        // In one transaction now() stands still: the policy ends where the row is, or a microsecond earlier.
        func taken(_ time: String, _ shift: String, _ call: String) async throws -> Int64? {
            try await store.admin.run { connection throws(PostgresError) in
                try connection.script(
                    """
                    BEGIN;
                    SET LOCAL timezone = 'UTC';
                    SELECT upstream.set_retention('100 days', '100 days', '100 days', '0');
                    UPDATE upstream.retention_policy SET \(time) = now() - (
                        SELECT min(last_seen_at) FROM upstream.conflicts) \(shift)
                    """
                )
                defer { try? connection.script("ROLLBACK") }
                return try connection.query("SELECT \(call)::bigint").value(Int64.self)
            }
        }
        // The partition is let go first, in the ledger's eyes.
        try await store.script(
            """
            DO $$ BEGIN EXECUTE (SELECT 'ALTER TABLE upstream.messages DETACH PARTITION ' || tableoid::regclass
                FROM upstream.messages); END $$
            """
        )
        for (time, call) in [
            ("messages", "upstream.purge_conflicts(10)"), ("messages", "upstream.purge_quarantine(10)"),
            ("dedupe_window", "upstream.purge_message_ids(0, 10)"), ("dead_letters", "upstream.purge_dead_letters(10)"),
        ] {
            let also = time == "dedupe_window" ? ", messages = '1 day'" : ""
            // A row may be stored with a time that is an hour old.
            let end = time == "dead_letters" ? "" : "- interval '1 hour'"
            #expect(try await taken(time, end + also, call) == 0, "\(call)")
            #expect(try await taken(time, "\(end) - interval '1 microsecond'\(also)", call) == 1, "\(call)")
        }
    }

    @Test("who makes the policy longer waits for a deletion under way, and none follows by the shorter one")
    func fenced() async throws {
        let fixture = try await StoreFixture()
        let past = IncomingMessage.now() - 50 * Self.day
        _ = try await fixture.store().commit([.make(1, receivedAt: past), .make(2, receivedAt: past - Self.day)])
        try await Retention(fixture.admin).set(.usual, by: .tester)
        let drop = "SELECT upstream.drop_partition((now() AT TIME ZONE 'UTC')::date"
        let (deleter, starter) = (
            try await PostgresConnection.open(fixture.settings), try await PostgresConnection.open(fixture.settings)
        )
        try await deleter.run { connection throws(PostgresError) in try connection.script("BEGIN; \(drop) - 50)") }
        async let raised = Retention(starter).raise(to: Self.policy(60, 65, 90))
        try await fixture.waitUntil(
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%raise_retention%')"
        )
        try await deleter.run { connection throws(PostgresError) in try connection.script("COMMIT") }
        #expect(try await raised)
        let error = await #expect(throws: PostgresError.self) {
            try await deleter.run { connection throws(PostgresError) in try connection.script("\(drop) - 51)") }
        }
        #expect(error?.sqlState == "22023")
        #expect(try await fixture.count("messages") == 1)
        await deleter.close()
        await starter.close()
    }

    @Test("a process whose clock is off by more than five minutes deletes nothing and says by how much")
    func clocks() async throws {
        let fixture = try await StoreFixture()
        _ = try await fixture.store().commit([.make(1, receivedAt: IncomingMessage.now() - 50 * Self.day)])
        try await Retention(fixture.admin).set(.usual, by: .tester)
        for ahead in [30 * Self.day, -30 * Self.day, 301_000_000, -302_000_000] {
            let report = try await Retention(fixture.admin, pace: .brisk) { .now + .microseconds(ahead) }.run()
            guard case .clock(let difference)? = report.refusal else {
                Issue.record("\(ahead): \(report)")
                continue
            }
            #expect(abs(difference.ahead.microseconds - ahead) < 1_000_000)
            #expect(report.dropped.isEmpty && !report.isComplete)
        }
        #expect(try await fixture.count("messages") == 1)
        let report = try await Retention(fixture.admin, pace: .brisk) { .now + .seconds(290) }.run()
        #expect(report.refusal == nil && report.dropped.count == 1)
    }

    private static func difference(_ asked: Int64, _ database: Int64, _ answered: Int64) -> ClockDifference {
        ClockDifference(
            asked: Timestamp(microseconds: asked),
            database: Timestamp(microseconds: database),
            answered: Timestamp(microseconds: answered)
        )
    }

    @Test("a slow answer is not taken for a wrong clock")
    func slow() {
        #expect(Self.difference(0, 900_000_000, 1_000_000_000).ahead == .zero)
        #expect(Self.difference(400_000_000, 0, 900_000_000).ahead == .seconds(400))
        #expect(Self.difference(0, 900_000_000, 500_000_000).ahead == .seconds(-400))
        #expect(Self.difference(300_000_000, 0, 300_000_000).isTooLarge == false)
        #expect(Self.difference(300_000_001, 0, 300_000_001).isTooLarge)
        let words = Self.difference(30 * Self.day, 0, 30 * Self.day).description
        #expect(words == "this machine's clock is 30 days ahead of the database's")
    }
}
