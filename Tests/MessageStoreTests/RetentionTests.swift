import Dispatcher
import Ingest
import MessageStore
import Postgres
import Testing
import UpstreamKit
import Vocabulary

extension RetentionPolicy {
    /// What is kept where nothing is configured.
    static let usual = RetentionPolicy(messages: .seconds(30 * 86_400), dedupeWindow: .seconds(35 * 86_400))
}

extension Retention.Pace {
    /// Without rests.
    static var brisk: Retention.Pace {
        var pace = Retention.Pace()
        pace.pause = .milliseconds(1)
        pace.longestPause = .milliseconds(1)
        pace.rest = .zero
        return pace
    }
}

extension StoreFixture {
    /// Lets the database judge as if it were another time than it is: what the policy keeps is as much longer as that time
    /// is ago.
    ///
    /// Some milliseconds pass between this and the judgement.
    func pretend(_ now: Int64, _ policy: RetentionPolicy = .usual) async throws {
        let ago = Duration.microseconds(IncomingMessage.now() - now)
        var longer = policy
        for (_, path) in RetentionPolicy.configured { longer[keyPath: path] += ago }
        // The hour that rows are kept for beyond the policy is StampTests'.
        longer.messages -= StampLimits.oldest
        longer.dedupeWindow -= StampLimits.oldest
        try await Retention(admin).set(longer, by: .tester)
    }
}

/// Retention on a real PostgreSQL.
///
/// The database judges by its own clock, so all of it plays in the past, with a policy that is as much longer.
@Suite("what is too old goes, and nothing else")
struct RetentionTests {
    private static let day: Int64 = 86_400_000_000
    private static let hour: Int64 = 3_600_000_000
    /// A midnight sixty days ago.
    private static let midnight = UTCDay(number: UTCDay.today().number - 60).start.microseconds

    private func run(
        _ fixture: StoreFixture,
        _ now: Int64,
        force: Bool = false,
        _ pace: Retention.Pace = .brisk
    ) async throws -> RetentionReport {
        try await fixture.pretend(now)
        return try await Retention(fixture.admin, pace: pace).run(force: force)
    }

    private func partitions(_ fixture: StoreFixture, _ now: Int64) async throws -> [PartitionPlan] {
        try await fixture.pretend(now)
        let policy = try #require(try await Retention(fixture.admin).policy()?.policy)
        return try await Retention(fixture.admin).plan(under: policy).partitions
    }

    @Test("a redelivery is a duplicate: across midnight, and after its body has gone, until the window ends")
    func midnight() async throws {
        let fixture = try await StoreFixture()
        let store = fixture.store()
        let midnight = Self.midnight
        let yesterday = UTCDay(microseconds: midnight - 1)
        _ = try await run(fixture, midnight - 1)
        let message = IncomingMessage.make(1, receivedAt: midnight - 1)
        #expect(try await store.commit([message]) == [.stored])
        // Midnight passes.
        _ = try await run(fixture, midnight)
        #expect(try await store.commit([message.copy(receivedAt: midnight + 1)]) == [.duplicate])
        #expect(try await store.commit([.make(2, receivedAt: midnight + 2 * Self.hour)]) == [.stored])
        #expect(try await fixture.count("messages") == 2)

        // The day's last moment is thirty days old an hour later.
        let old = try await run(fixture, midnight + 30 * Self.day - Self.hour)
        #expect(!old.dropped.contains { $0.day == yesterday })
        let done = try await run(fixture, midnight + 30 * Self.day)
        #expect(done.dropped.map(\.day) == [yesterday])
        #expect(try await fixture.integer("SELECT count(*) FROM upstream.messages WHERE message_id = 'm-1'") == 0)
        #expect(try await fixture.integer("SELECT count(*) FROM upstream.messages WHERE message_id = 'm-2'") == 1)
        #expect(try await store.commit([message.copy(receivedAt: midnight + 30 * Self.day)]) == [.duplicate])

        // A late one of the day that is gone gets its partition at need; it goes again with the next run.
        #expect(try await store.commit([.make(3, receivedAt: midnight - 2 * Self.hour)]) == [.stored])
        #expect(try await partitions(fixture, midnight + 30 * Self.day).first?.day == yesterday)
        #expect(try await run(fixture, midnight + 30 * Self.day).dropped.map(\.day) == [yesterday])

        // The ledger knows it for the window; the late one is two hours older.
        #expect(try await run(fixture, midnight + 35 * Self.day - Self.hour).ledger == 1)
        #expect(try await store.commit([message.copy(receivedAt: midnight + 35 * Self.day - 1)]) == [.duplicate])
        #expect(try await run(fixture, midnight + 35 * Self.day).ledger == 1)
        #expect(try await store.commit([message.copy(receivedAt: midnight + 35 * Self.day)]) == [.stored])
    }

    @Test("a day that a delivery needs is kept and told, unless it is forced; its dead letters keep their messages")
    func needs() async throws {
        let fixture = try await DeliveriesFixture()
        let store = fixture.store
        let batch = (1...3).map { IncomingMessage.make($0, receivedAt: Self.midnight + Int64($0)) }
        _ = try await fixture.writer.commit(batch)
        let claimed = try await fixture.claim()
        let failure = HandlerFailure(group: "g", detail: "d")
        _ = try await fixture.deliveries.settle(
            [claimed[0].settled(.dead(failure, isCounted: true)), claimed[1].settled(.done)],
            of: "orders"
        )
        let now = Self.midnight + 40 * Self.day
        let held = try await run(store, now)
        #expect(held.dropped.isEmpty && held.held.map(\.waiting) == [1] && held.held.map(\.deadLetters) == [1])
        #expect(try await store.count("messages") == 3)
        // Its ledger rows are past the window and stay: a copy that came again would be stored beside the body.
        #expect(held.ledger == 0)
        #expect(try await fixture.writer.commit([batch[0].copy(receivedAt: now)]) == [.duplicate])
        // The database itself refuses, whoever asks.
        let refusal = try await store.text("SELECT outcome FROM upstream.drop_partition('\(day(Self.midnight))')")
        #expect(refusal == "pending")

        let forced = try await run(store, now, force: true)
        #expect(forced.dropped.count == 1 && forced.held.isEmpty)
        #expect((forced.deliveries, forced.deadLettersKept) == (1, 1))
        #expect(try await store.count("messages") == 0)
        #expect(try await store.count("deliveries") == 0)
        #expect(try await store.count("dead_letters") == 1)
        #expect(try await store.count("dead_messages") == 1)
        // Of the three ids one has a body yet.
        #expect(forced.ledger == 2)
    }

    @Test("a day that deliveries in a block need is kept and told, until the block is done")
    func blocks() async throws {
        let stage = try await DeliveryBlocksTests.Stage()
        let batch = (1...20).map {
            IncomingMessage.make($0, receivedAt: Self.midnight + Int64($0), category: "com.example.orders")
        }
        _ = try await stage.fixture.writer.commit(batch, leasing: stage.offer(), isRetry: false)
        #expect(try await stage.blocks() == 1)
        let store = stage.fixture.store
        let now = Self.midnight + 40 * Self.day
        let held = try await run(store, now)
        #expect(held.dropped.isEmpty && held.held.map(\.waiting) == [20])
        let refusal = try await store.text("SELECT outcome FROM upstream.drop_partition('\(day(Self.midnight))')")
        #expect(refusal == "pending")
        #expect(try await stage.settle(count: 20, done: 1...20) == 20)
        #expect(try await run(store, now).dropped.count == 1)
    }

    @Test(
        "a day that a replay which has begun has yet to send is kept and told, until it has been sent",
        arguments: [true, false]
    )
    func replays(isRunning: Bool) async throws {
        let fixture = try await StoreFixture()
        let midnight = Self.midnight
        _ = try await fixture.store().commit((0..<3).map { .make($0 + 1, receivedAt: midnight + Int64($0)) })
        try await fixture.script(
            """
            INSERT INTO upstream.replays (
                name, kind, target, occupies, selection, options, state, created_by, planned, done,
                first_received_at, last_received_at
            ) SELECT 'r', 'output', 'r', '{}', '{}', '{}', '\(isRunning ? "running" : "paused")', 'test', 3, 1,
                min(received_at), max(received_at) FROM upstream.messages;
            INSERT INTO upstream.replay_messages (replay_id, chunk, received_at, message_key)
            SELECT r.replay_id, 0, array_agg(m.received_at ORDER BY m.received_at), array_agg(m.message_key ORDER BY m.received_at)
            FROM upstream.replays AS r, upstream.messages AS m GROUP BY 1
            """
        )
        let later = midnight + 32 * Self.day
        let waiting = "SELECT upstream.waiting_deliveries('-infinity', 'infinity')"
        #expect(try await fixture.integer(waiting) == 2)
        _ = try await run(fixture, later)
        #expect(try await fixture.count("messages") == 3)
        try await fixture.script("UPDATE upstream.replays SET done = 3")
        #expect(try await fixture.integer(waiting) == 0)
        _ = try await run(fixture, later)
        #expect(try await fixture.count("messages") == 0)
    }

    @Test("every table has a replica identity: a publication FOR ALL TABLES stops nothing")
    func replicaIdentities() async throws {
        let fixture = try await StoreFixture()
        let missing = try await fixture.text(
            """
            SELECT string_agg(c.relname, ' ') FROM pg_class AS c
            WHERE c.relnamespace = 'upstream'::regnamespace AND c.relkind IN ('r', 'p') AND CASE c.relreplident
                WHEN 'd' THEN NOT EXISTS (SELECT FROM pg_index AS i WHERE i.indrelid = c.oid AND i.indisprimary)
                ELSE c.relreplident = 'n' END
            """
        )
        #expect(missing == nil)
        // Refused whatever wal_level is.
        try await fixture.script("CREATE PUBLICATION everything FOR ALL TABLES")
        _ = try await fixture.store().commit([.make(1, receivedAt: Self.midnight)])
        _ = try await run(fixture, Self.midnight + 32 * Self.day)
        #expect(try await fixture.count("messages") == 0)
        try await fixture.script(
            "UPDATE upstream.retention_policy SET set_by = 'x'; DELETE FROM upstream.retention_runs"
        )
    }

    @Test("what was settled does not hold its day")
    func settled() async throws {
        let fixture = try await DeliveriesFixture()
        _ = try await fixture.writer.commit([.make(1, receivedAt: Self.midnight)])
        let now = Self.midnight + 32 * Self.day
        #expect(try await run(fixture.store, now).held.count == 1)
        _ = try await fixture.deliveries.settle(try await fixture.claim().map { $0.settled(.done) }, of: "orders")
        #expect(try await run(fixture.store, now).dropped.count == 1)
    }

    @Test("ingest does not wait while a report keeps a day from being dropped")
    func readers() async throws {
        let fixture = try await StoreFixture()
        _ = try await fixture.store().commit([.make(1, receivedAt: Self.midnight)])
        let now = Self.midnight + 32 * Self.day
        let report = try await PostgresConnection.open(fixture.settings)
        // It reads another day: the day's own lock is to be had, and the one of the whole table is not.
        let today = day(IncomingMessage.now())
        try await report.run { connection throws(PostgresError) in
            try connection.script("BEGIN; SELECT count(*) FROM upstream.messages WHERE received_at >= '\(today)'")
        }
        var settings = fixture.settings
        // Ten times what one attempt may take of it.
        settings.lockTimeout = 500
        let impatient = MessageStore(settings, senders: StoreFixture.senders)
        var pace = Retention.Pace.brisk
        pace.attempts = 5
        let chosen = pace
        async let done = run(fixture, now, chosen)
        for number in 2...60 as ClosedRange<UInt64> {
            #expect(try await impatient.commit([.make(number)]) == [.stored])
        }
        #expect(try await done.locked.count == 1)
        #expect(try await fixture.count("messages") == 60)
        await report.close()
        #expect(try await run(fixture, now).dropped.count == 1)
        #expect(try await fixture.count("messages") == 59)
    }

    @Test("one at a time: the second leaves it to the first")
    func oneAtATime() async throws {
        let fixture = try await StoreFixture()
        _ = try await fixture.store().commit([.make(1, receivedAt: Self.midnight)])
        let now = Self.midnight + 40 * Self.day
        let other = try await PostgresConnection.open(fixture.settings)
        try await other.run { connection throws(PostgresError) in
            try connection.script(
                "BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('upstream.retention', 0))"
            )
        }
        let busy = try await run(fixture, now)
        #expect(busy.isBusy && busy.dropped.isEmpty && busy.ledger == 0 && !busy.isComplete)
        try await other.run { connection throws(PostgresError) in try connection.script("COMMIT") }
        let done = try await run(fixture, now)
        #expect(done.isComplete && done.dropped.count == 1 && done.ledger == 1)
    }

    @Test("a complete run is written down, and makes the next one due on the next day")
    func due() async throws {
        let fixture = try await StoreFixture()
        let retention = Retention(fixture.admin, pace: .brisk)
        try await fixture.pretend(Self.midnight + 40 * Self.day)
        #expect(try await retention.isDue())
        let other = try await PostgresConnection.open(fixture.settings)
        try await other.run { connection throws(PostgresError) in
            try connection.script("BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('upstream.retention', 0))")
        }
        _ = try await fixture.store().commit([.make(1, receivedAt: Self.midnight)])
        _ = try await retention.run()
        #expect(try await retention.isDue(), "it was not complete")
        // The lock goes with the transaction; a session that is only closed keeps it for a moment.
        try await other.run { connection throws(PostgresError) in try connection.script("COMMIT") }
        await other.close()
        _ = try await retention.run()
        #expect(
            try await fixture.text(
                "SELECT concat_ws(' ', partitions_dropped, ids_deleted) FROM upstream.retention_runs"
            )
                == "1 1"
        )
        // Either side of midnight, and by a clock that was wrong.
        for (time, isDue) in [
            ("now()", false), ("today - interval '1 second'", true), ("now() + interval '30 days'", true),
        ] {
            try await fixture.script(
                """
                UPDATE upstream.retention_runs SET started_at = \(time)
                FROM (SELECT date_trunc('day', now(), 'UTC') AS today) AS days
                """
            )
            #expect(try await retention.isDue() == isDue, "\(time)")
        }
    }

    @Test("conflicts and quarantined stanzas go with the bodies, unless they were seen again")
    func odd() async throws {
        let fixture = try await StoreFixture()
        let store = fixture.store()
        let known = IncomingMessage.make(1, receivedAt: Self.midnight)
        var batch = [known]
        for number in 2...6 as ClosedRange<UInt64> {
            batch.append(known.copy(receivedAt: Self.midnight + Int64(number), fingerprint: number))
            batch.append(.make(number, receivedAt: Self.midnight + Int64(number), quarantine: .duplicateKey))
        }
        _ = try await store.commit(batch)
        // Two of them come again, twenty days later.
        let later = Self.midnight + 20 * Self.day
        _ = try await store.commit([batch[1].copy(receivedAt: later), batch[2].copy(receivedAt: later)])
        var pace = Retention.Pace.brisk
        pace.rows = 3
        #expect(try await run(fixture, Self.midnight + 30 * Self.day - Self.hour, pace).conflicts == 0)
        let done = try await run(fixture, Self.midnight + 31 * Self.day, pace)
        #expect((done.conflicts, done.quarantine) == (4, 4))
        #expect(try await run(fixture, later + 30 * Self.day + Self.hour, pace).conflicts == 1)
        #expect(try await fixture.count("quarantine") == 0)
    }

    @Test("a released conflict stays for as long as its delivery or its dead letter")
    func released() async throws {
        let fixture = try await DeliveriesFixture()
        let known = IncomingMessage.make(1, receivedAt: Self.midnight)
        let other = known.copy(receivedAt: Self.midnight + 9, fingerprint: 9)
        _ = try await fixture.writer.commit([known, other, known.copy(receivedAt: Self.midnight + 10, fingerprint: 10)])
        try await fixture.store.script("DELETE FROM upstream.deliveries")
        let key = MessageKey(known.messageKey)
        _ = try await ConflictRelease.release(key, fingerprint: other.fingerprint, by: .tester, fixture.store.admin)
        let now = Self.midnight + 32 * Self.day
        #expect(try await run(fixture.store, now).conflicts == 1, "the one that nobody released")
        let failure = HandlerFailure(group: "g", detail: "d")
        let claimed = try await fixture.claim()
        #expect(claimed.count == 1)
        _ = try await fixture.deliveries.settle(
            claimed.map { $0.settled(.dead(failure, isCounted: true)) },
            of: "orders"
        )
        #expect(try await run(fixture.store, now).conflicts == 0)
        #expect(try await DeadLetters(fixture.store.admin).discard(DeadLetterFilter(), by: .tester) == 1)
        #expect(try await run(fixture.store, now).conflicts == 1)
    }

    @Test("the ledger is read in bounded parts, and what is young stays in every one of them")
    func ledgerParts() async throws {
        let fixture = try await StoreFixture()
        let (old, young) = (Self.midnight / 1_000_000, Self.midnight / 1_000_000 + 10 * 86_400)
        try await fixture.script(
            """
            INSERT INTO upstream.message_ids
            SELECT gen_random_uuid(), gen_random_uuid(), to_timestamp(CASE WHEN n % 3 = 0 THEN \(young) ELSE \(old) END)
            FROM generate_series(1, 3000) AS n;
            ANALYZE upstream.message_ids
            """
        )
        let now = Self.midnight + 36 * Self.day
        try await fixture.pretend(now)
        let policy = try #require(try await Retention(fixture.admin).policy()?.policy)
        let plan = try await Retention(fixture.admin).plan(under: policy)
        let expired = try #require(plan.ledgerExpired)
        #expect(plan.ledgerRows == 3000 && (1900...2100).contains(expired))
        var pace = Retention.Pace.brisk
        pace.blocks = 2
        let parts = Parts()
        let done = try await Retention(fixture.admin, pace: pace).run { progress in
            if case .ledger(_, _, let deleted) = progress { parts.add(deleted) }
        }
        #expect(done.ledger == 2000)
        let steps = zip(parts.totals, parts.totals.dropFirst()).map { $1 - $0 }
        // Two blocks hold 230 rows at most.
        #expect(parts.totals.count > 8 && steps.allSatisfy { $0 <= 230 })
        #expect(try await fixture.count("message_ids") == 1000)
    }

    @Test("the plan tells what the run does, and changes nothing")
    func plan() async throws {
        let fixture = try await DeliveriesFixture()
        let store = fixture.store
        _ = try await fixture.writer.commit([.make(1, receivedAt: Self.midnight)])
        _ = try await fixture.deliveries.settle(try await fixture.claim().map { $0.settled(.done) }, of: "orders")
        _ = try await fixture.writer.commit([.make(2, receivedAt: Self.midnight + Self.day), .make(3)])
        try await Retention(store.admin).set(.usual, by: .tester)
        let retention = Retention(store.admin, pace: .brisk)
        let plan = try await retention.plan(under: .usual)
        #expect(abs(plan.now.microseconds - IncomingMessage.now()) < 60_000_000)
        #expect(plan.partitions(.drop).map(\.day.start.microseconds) == [Self.midnight])
        #expect(plan.partitions(.held).map(\.waiting) == [1])
        #expect(plan.partitions(.keep).count == 2 && plan.partitions(.ahead).count == 7 && plan.missing.isEmpty)
        #expect(plan.partitions.allSatisfy { $0.bytes > 0 && $0.end == $0.day.end })
        let before = try await store.count("messages")
        #expect(before == 3)
        let report = try await retention.run()
        #expect(report.dropped.map(\.day) == plan.partitions(.drop).map(\.day))
        #expect(report.held.map(\.day) == plan.partitions(.held).map(\.day))
    }

    /// A day as SQL writes it.
    private func day(_ microseconds: Int64) -> String {
        String(Timestamp(microseconds: microseconds).rfc3339.prefix(10))
    }
}

/// What a progress report told, in order.
private final class Parts: @unchecked Sendable {
    // Reports come from one task.
    private(set) var totals: [Int] = []
    func add(_ total: Int) { totals.append(total) }
}
