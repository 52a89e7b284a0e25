import Dispatcher
import Ingest
import MessageStore
import Postgres
import Testing
import UpstreamKit
import Vocabulary

@Suite("a dead letter keeps its message, and not the whole day")
struct DeadMessageTests {
    private static let day: Int64 = 86_400_000_000
    /// A midnight fifty days ago.
    private static let midnight = UTCDay(number: UTCDay.today().number - 50).start.microseconds
    private static let drop = "SELECT outcome FROM upstream.drop_partition((now() AT TIME ZONE 'UTC')::date - 50)"

    /// A day fifty days ago with so many messages, of which the first ones have died; the others are done.
    private func fixture(_ count: UInt64 = 20, dead: UInt64 = 2) async throws -> DeliveriesFixture {
        let fixture = try await DeliveriesFixture()
        let batch = (1...count).map { IncomingMessage.make($0, receivedAt: Self.midnight + Int64($0)) }
        _ = try await fixture.writer.commit(batch)
        let failure = HandlerFailure(group: "g", detail: "d")
        _ = try await fixture.deliveries.settle(
            try await fixture.claim().map {
                $0.settled($0.number <= dead ? .dead(failure, isCounted: true) : .done)
            },
            of: "orders"
        )
        try await Retention(fixture.store.admin).set(.usual, by: .tester)
        return fixture
    }

    private func run(_ fixture: DeliveriesFixture, rows: Int64 = 1_000) async throws -> RetentionReport {
        var pace = Retention.Pace.brisk
        pace.rows = rows
        return try await Retention(fixture.store.admin, pace: pace).run()
    }

    /// What handlers are given, by number.
    private func contents(_ deliveries: [Delivery]) -> [UInt64: String] {
        var contents: [UInt64: String] = [:]
        for delivery in deliveries {
            if case .stored(let message) = delivery.content {
                contents[delivery.number] = String(decoding: message.data ?? [], as: UTF8.self)
            } else {
                contents[delivery.number] = "missing"
            }
        }
        return contents
    }

    @Test("a trigger that keeps messages from being copied keeps their day, until it is gone")
    func trigger() async throws {
        let fixture = try await fixture()
        try await fixture.store.script(
            """
            CREATE FUNCTION public.drop_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
            CREATE TRIGGER drop_row BEFORE INSERT ON upstream.dead_messages FOR EACH ROW EXECUTE FUNCTION public.drop_row()
            """
        )
        let error = await #expect(throws: PostgresError.self) { try await run(fixture) }
        #expect(error?.message.contains("2 of 2 messages of dead letters") == true, "\(String(describing: error))")
        #expect(try await fixture.store.count("messages") == 20)
        try await fixture.store.script("DROP TRIGGER drop_row ON upstream.dead_messages")
        #expect(try await run(fixture).deadLettersKept == 2)
        #expect(try await fixture.store.count("dead_messages") == 2)
    }

    @Test("the day goes, and what has died is shown, retried, handled and then forgotten")
    func life() async throws {
        let fixture = try await fixture()
        let store = fixture.store
        let plan = try await Retention(store.admin).plan(under: .usual)
        #expect(plan.partitions(.drop).map(\.deadLetters) == [2] && plan.partitions(.held).isEmpty)
        let report = try await run(fixture, rows: 1)
        #expect(report.dropped.count == 1 && report.held.isEmpty && report.deadLettersKept == 2 && report.isComplete)
        #expect(try await store.count("messages") == 0)
        #expect(try await store.count("dead_messages") == 2)
        // The other eighteen ids are past the window and go; these two are known for as long as the message is there.
        #expect(report.ledger == 18)
        let again = IncomingMessage.make(1, receivedAt: Self.midnight + 1).copy(receivedAt: IncomingMessage.now())
        #expect(try await fixture.writer.commit([again]) == [.duplicate])

        let letters = DeadLetters(store.admin)
        let categories = try await letters.list(DeadLetterFilter(), limit: 10).map(\.category)
        #expect(categories == ["com.example.orders", "com.example.orders"])
        var category = DeadLetterFilter()
        category.category = "com.example.orders"
        #expect(try await letters.count(category) == 2)
        #expect(try await letters.retry(category, by: .tester) == 2)
        // Retention leaves alone what a delivery needs.
        #expect(try await run(fixture).deadMessages == 0)
        let claimed = try await fixture.claim()
        #expect(contents(claimed) == [1: #"{"a":1}"#, 2: #"{"a":1}"#])
        let failure = HandlerFailure(group: "g", detail: "d")
        _ = try await fixture.deliveries.settle(
            claimed.map { $0.settled($0.number == 1 ? .done : .dead(failure, isCounted: true)) },
            of: "orders"
        )
        let second = try await run(fixture)
        #expect(second.deadMessages == 1 && second.ledger == 1)
        #expect(try await letters.discard(DeadLetterFilter(), by: .tester) == 1)
        #expect(try await run(fixture).deadMessages == 1)
        #expect(try await store.count("dead_messages") == 0)
        #expect(try await store.count("message_ids") == 0)
    }

    @Test("a dead letter has an age limit of its own, and takes its message with it")
    func expiry() async throws {
        let fixture = try await fixture(3, dead: 3)
        #expect(try await run(fixture).deadLettersKept == 3)
        try await fixture.store.script(
            """
            UPDATE upstream.dead_letters SET died_at = now() - interval '89 days' WHERE message_key IN (
                SELECT message_key FROM upstream.dead_letters ORDER BY message_key LIMIT 1);
            UPDATE upstream.dead_letters SET died_at = now() - interval '91 days' WHERE died_at > now() - interval '1 day'
            """
        )
        let plan = try await Retention(fixture.store.admin).plan(under: .usual)
        #expect(plan.deadLetters == 2)
        let report = try await run(fixture, rows: 1)
        #expect(report.deadLetters == 2 && report.deadMessages == 2)
        #expect(try await fixture.store.count("dead_letters") == 1)
        #expect(try await fixture.store.count("dead_messages") == 1)
        #expect(
            try await fixture.store.integer("SELECT sum(dead_letters_deleted)::bigint FROM upstream.retention_runs")
                == 2
        )
    }

    @Test("a function that is called with the message is given it from there, too")
    func function() async throws {
        let fixture = try await fixture(1, dead: 1)
        #expect(try await run(fixture).deadLettersKept == 1)
        let key = try #require(try await fixture.store.text("SELECT message_key::text FROM upstream.dead_messages"))
        #expect(
            try await fixture.store.text(
                """
                SELECT message_id || ' ' || registration_token || ' ' || data::text
                FROM upstream.dead_letters AS d, upstream.message_of(d.message_key, d.received_at)
                WHERE d.message_key = '\(key)'
                """
            ) == #"m-1 token-SECRET {"a":1}"#
        )
    }

    /// Starts to drop the day while somebody reads it, lets `body` happen meanwhile, and gives the outcome.
    private func dropDuring(
        _ fixture: DeliveriesFixture,
        _ body: () async throws -> Void
    ) async throws -> String? {
        let (reader, dropper) = (
            try await PostgresConnection.open(fixture.store.settings),
            try await PostgresConnection.open(fixture.store.settings)
        )
        let partition = try #require(
            try await fixture.store.text("SELECT tableoid::regclass::text FROM upstream.messages LIMIT 1")
        )
        try await reader.run { connection throws(PostgresError) in
            try connection.script("BEGIN; LOCK TABLE \(partition) IN ACCESS SHARE MODE")
        }
        async let outcome = dropper.run { connection throws(PostgresError) in
            try connection.query(Self.drop).value(String?.self)
        }
        try await fixture.store.waitUntil(
            "SELECT EXISTS (SELECT FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND NOT granted)"
        )
        try await body()
        await reader.close()
        let result = try await outcome
        await dropper.close()
        return result
    }

    @Test("what is retried while its day is being dropped has its message")
    func retriedMeanwhile() async throws {
        let fixture = try await fixture(5, dead: 2)
        let outcome = try await dropDuring(fixture) { () async throws in
            #expect(try await DeadLetters(fixture.store.admin).retry(DeadLetterFilter(), by: .tester) == 2)
        }
        // Nothing had been copied, so the day stays for the deliveries.
        #expect(outcome == "pending" || outcome == "locked")
        #expect(contents(try await fixture.claim()) == [1: #"{"a":1}"#, 2: #"{"a":1}"#])
        #expect(try await fixture.store.count("messages") == 5)
    }

    @Test("what has been copied and is retried while its day is being dropped does not hold the day")
    func retriedAfterCopy() async throws {
        let fixture = try await fixture(5, dead: 2)
        try await fixture.store.script(
            "SELECT upstream.keep_dead_messages((now() AT TIME ZONE 'UTC')::date - 50, 10)"
        )
        #expect(try await fixture.store.count("dead_messages") == 2)
        var outcome = try await dropDuring(fixture) { () async throws in
            #expect(try await DeadLetters(fixture.store.admin).retry(DeadLetterFilter(), by: .tester) == 2)
        }
        if outcome == "locked" { outcome = try await fixture.store.text(Self.drop) }
        #expect(outcome == "dropped")
        #expect(contents(try await fixture.claim()) == [1: #"{"a":1}"#, 2: #"{"a":1}"#])
    }

    @Test("what dies while its day is being dropped has its message")
    func diesMeanwhile() async throws {
        let fixture = try await fixture(5, dead: 0)
        let key = try #require(
            try await fixture.store.text("SELECT message_key::text FROM upstream.messages WHERE message_id = 'm-4'")
        )
        var outcome = try await dropDuring(fixture) { () async throws in
            // As by a replay whose delivery died at once; messages is not to be read just now.
            try await fixture.store.script(
                """
                INSERT INTO upstream.dead_letters (
                    handler, message_key, received_at, attempts, next_attempt_at, lease_token, error_group)
                SELECT 'orders', message_key, received_at, 1, now(), 1, 'g' FROM upstream.message_ids
                WHERE message_key = '\(key)'
                """
            )
        }
        if outcome == "locked" { outcome = try await fixture.store.text(Self.drop) }
        #expect(outcome == "dropped")
        #expect(try await fixture.store.text("SELECT message_id FROM upstream.dead_messages") == "m-4")
        #expect(try await DeadLetters(fixture.store.admin).retry(DeadLetterFilter(), by: .tester) == 1)
        #expect(contents(try await fixture.claim()) == [4: #"{"a":1}"#])
    }

    @Test("a run that is killed in the middle loses nothing, and the next one does the rest")
    func killed() async throws {
        let fixture = try await fixture(40, dead: 30)
        let reader = try await PostgresConnection.open(fixture.store.settings)
        try await reader.run { connection throws(PostgresError) in
            try connection.script("BEGIN; SELECT count(*) FROM upstream.messages")
        }
        var settings = fixture.store.settings
        settings.applicationName = "to-be-killed"
        let victim = try await PostgresConnection.open(settings)
        async let broken: RetentionReport? = try? Retention(victim).run()
        try await fixture.store.waitUntil(
            "SELECT EXISTS (SELECT FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND NOT granted)"
        )
        try await fixture.store.script(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'to-be-killed'"
        )
        #expect(await broken == nil)
        await reader.close()
        // The copies were made ahead, each of them in a transaction of its own; the day is still there as well.
        #expect(try await fixture.store.count("dead_messages") == 30)
        #expect(try await fixture.store.count("messages") == 40)
        let report = try await run(fixture)
        #expect(report.dropped.count == 1 && report.deadLettersKept == 30 && report.ledger == 10)
        #expect(try await DeadLetters(fixture.store.admin).retry(DeadLetterFilter(), by: .tester) == 30)
        #expect(contents(try await fixture.claim()).values.allSatisfy { $0 == #"{"a":1}"# })
    }
}
