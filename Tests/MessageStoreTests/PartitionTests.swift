import Ingest
import MessageStore
import Postgres
import Testing
import Vocabulary

@Suite("a day has its partition, whatever else is called like it and however sessions write dates")
struct PartitionTests {
    private static let day: Int64 = 86_400_000_000

    /// The partitions that are no whole UTC day, or whose day is not the one in their name.
    private static let odd = """
        SELECT coalesce(string_agg(concat_ws(' ', relname, since, until), ', '), 'none') FROM upstream.partitions()
        WHERE until - since <> interval '24 hours' OR is_detaching
            OR left(relname, 17) <> 'messages_' || to_char(since AT TIME ZONE 'UTC', 'YYYYMMDD')
        """

    private static let places = """
        SELECT string_agg(relname, ' ') FROM upstream.messages AS m JOIN pg_class ON pg_class.oid = m.tableoid
        """

    private func ensure(_ fixture: StoreFixture, _ first: Int64, _ last: Int64? = nil) async throws -> Int {
        try await fixture.admin.run { connection throws(PostgresError) in
            try Partitions.ensure(connection, from: UTCDay(number: first), to: UTCDay(number: last ?? first))
        }
    }

    @Test("a relation that is detached, or that never was a partition, takes no day's place")
    func taken() async throws {
        let fixture = try await StoreFixture()
        let now = IncomingMessage.now()
        let today = UTCDay(microseconds: now)
        _ = try await fixture.store().commit([.make(1, receivedAt: now)])
        let name = "messages_" + String(Timestamp(microseconds: now).rfc3339.prefix(10)).filter { $0 != "-" }
        try await fixture.script("ALTER TABLE upstream.messages DETACH PARTITION upstream.\(name)")
        #expect(try await fixture.store().commit([.make(2, receivedAt: now + 1)]) == [.stored])
        #expect(try await fixture.text(Self.places) == "\(name)_1")
        // What was detached is as it was.
        #expect(try await fixture.count(name) == 1)
        #expect(try await ensure(fixture, today.number) == 0)
        // Once more, with a view in the place of the next name.
        try await fixture.script(
            """
            ALTER TABLE upstream.messages DETACH PARTITION upstream.\(name)_1;
            CREATE VIEW upstream.\(name)_2 AS SELECT 1 AS x
            """
        )
        #expect(try await fixture.store().commit([.make(3, receivedAt: now + 2)]) == [.stored])
        #expect(try await fixture.text(Self.places) == "\(name)_3")
        #expect(try await StoreStatistics.take(fixture.admin).days.contains(today))
        // Erasure and retention know it by what it is, too.
        let plan = try await Retention(fixture.admin).plan(under: .usual)
        #expect(plan.partitions.filter { $0.day == today }.map(\.name) == ["\(name)_3"] && plan.missing.isEmpty)
        try await fixture.script(
            "UPDATE upstream.messages SET device_key = left(encode(sha256('token-SECRET'), 'hex'), 32)::uuid"
        )
        #expect(try await Erasure(fixture.admin, token: [UInt8]("token-SECRET".utf8)).run(by: .tester).messages == 1)
    }

    @Test("a day under another name is dropped when its time has come, and its ids with it")
    func renamedGoes() async throws {
        let fixture = try await StoreFixture()
        let past = IncomingMessage.now() - 50 * Self.day
        _ = try await fixture.store().commit([.make(1, receivedAt: past)])
        let name = try #require(try await fixture.text(Self.places))
        try await fixture.script("ALTER TABLE upstream.messages DETACH PARTITION upstream.\(name)")
        _ = try await fixture.store().commit([.make(2, receivedAt: past)])
        try await Retention(fixture.admin).set(.usual, by: .tester)
        let report = try await Retention(fixture.admin, pace: .brisk).run()
        #expect(report.dropped.map(\.name) == [name + "_1"] && report.ledger == 2)
        #expect(try await fixture.count(name) == 1)
    }

    @Test("a partition of several days serves each of them, and goes when the last one is too old")
    func several() async throws {
        let fixture = try await StoreFixture()
        let today = UTCDay(microseconds: IncomingMessage.now()).number
        func bounds(_ first: Int64, _ last: Int64) -> String {
            "FROM ('epoch'::timestamptz + interval '\(first) days') TO ('epoch'::timestamptz + interval '\(last) days')"
        }
        try await fixture.script(
            """
            SET timezone = 'UTC';
            CREATE TABLE upstream.wide PARTITION OF upstream.messages FOR VALUES \(bounds(today - 60, today - 29));
            CREATE TABLE upstream.half PARTITION OF upstream.messages
                FOR VALUES FROM ('epoch'::timestamptz + interval '\(today - 100) days 6 hours')
                TO ('epoch'::timestamptz + interval '\(today - 99) days')
            """
        )
        #expect(try await ensure(fixture, today - 60, today - 30) == 0)
        #expect(try await fixture.store().commit([.make(1, receivedAt: (today - 45) * Self.day)]) == [.stored])
        try await Retention(fixture.admin).set(.usual, by: .tester)
        let retention = Retention(fixture.admin, pace: .brisk)
        #expect(try await retention.run().dropped.map(\.name) == ["half"])
        // Its first day is long past, its last one is not.
        let error = await #expect(throws: PostgresError.self) {
            try await fixture.script("SELECT upstream.drop_partition((now() AT TIME ZONE 'UTC')::date - 45)")
        }
        #expect(error?.sqlState == "22023")
        var shorter = RetentionPolicy.usual
        shorter.messages = .seconds(28 * 86_400)
        try await retention.set(shorter, by: .tester)
        #expect(try await retention.run().dropped.map(\.name) == ["wide"])
    }

    @Test("a day that another partition takes a part of is refused with what to do, and not for a message's fault")
    func overlap() async throws {
        let fixture = try await StoreFixture()
        try await fixture.script(
            """
            CREATE TABLE upstream.half PARTITION OF upstream.messages
            FOR VALUES FROM ('2020-05-05 06:00:00+00') TO ('2020-05-06 00:00:00+00')
            """
        )
        let day: Int64 = 18_387
        let error = await #expect(throws: PostgresError.self) { _ = try await ensure(fixture, day) }
        #expect(error?.sqlState == "55000" && error?.maySucceedLater == true)
        #expect(error?.message == "the partition half takes a part of 2020-05-05 UTC")
    }

    @Test(
        "the dates of a session, a role or a database change nothing",
        arguments: [
            ("German, MDY", "UTC"), ("German, DMY", "Pacific/Apia"), ("SQL, DMY", "Asia/Kolkata"),
            ("SQL, MDY", "Pacific/Apia"), ("Postgres, YMD", "America/St_Johns"),
        ]
    )
    func styles(style: String, zone: String) async throws {
        let bare = try await StoreFixture(migrated: false)
        try await bare.script(
            """
            DO $$ BEGIN
                EXECUTE format('ALTER DATABASE %I SET datestyle = ''\(style)''', current_database());
                EXECUTE format('ALTER DATABASE %I SET timezone = ''\(zone)''', current_database());
                EXECUTE format('ALTER DATABASE %I SET intervalstyle = ''sql_standard''', current_database());
            END $$
            """
        )
        let connection = try await PostgresConnection.open(bare.settings)
        func text(_ sql: String) async throws -> String? {
            try await connection.run { connection throws(PostgresError) in try connection.query(sql).value(String?.self)
            }
        }
        #expect(try await text("SHOW datestyle") == style)
        _ = try await Migrator().up(connection)
        let days: [Int64] = [10_957, 15_337, 15_338, 15_339, 20_793, 20_800, 47_846]
        for day in days {
            let made = try await connection.run { connection throws(PostgresError) in
                try Partitions.ensure(connection, from: UTCDay(number: day), to: UTCDay(number: day))
            }
            #expect(made == 1)
        }
        #expect(try await text(Self.odd) == "none")
        // 30 December 2011, which Apia has never seen, is one of them.
        #expect(try await text("SELECT to_regclass('upstream.messages_20111230')::text") != nil)

        let retention = Retention(connection, pace: .brisk)
        #expect(try await retention.raise(to: .usual))
        #expect(try await retention.policy()?.policy == .usual)
        let ago = IncomingMessage.now() - 50 * Self.day
        _ = try await bare.store().commit([.make(1, receivedAt: ago), .make(2, receivedAt: ago + 1), .make(3)])
        try await bare.script("ANALYZE upstream.message_ids")
        let plan = try await retention.plan(under: .usual)
        #expect(plan.ledgerExpired == 2 && plan.missing.isEmpty)
        let report = try await retention.run()
        #expect(report.dropped.count == plan.partitions(.drop).count && report.dropped.count == 5)
        #expect(report.ledger == 2 && report.isComplete)
        #expect(try await text(Self.odd) == "none")
        await connection.close()
    }

    @Test(
        "years that only a wrong clock can mean have no partitions",
        arguments: [10_956, 47_847, -719_000, 1_000_000]
    )
    func years(day: Int64) async throws {
        let fixture = try await StoreFixture()
        let error = await #expect(throws: PostgresError.self) { _ = try await ensure(fixture, day) }
        // A message that comes meanwhile is kept back until the clock is right: it is not the one to blame.
        #expect(error?.sqlState == "55000" && error?.maySucceedLater == true)
        #expect(!Partitions.days.contains(UTCDay(number: day)))
    }
}
