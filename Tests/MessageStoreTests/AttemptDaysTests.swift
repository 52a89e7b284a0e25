import Dispatcher
import Handlers
import Postgres
import Testing
import Vocabulary

@testable import MessageStore

@Suite("the days of the history of attempts") struct AttemptDaysTests {
    /// A database with attempts of today, of 3 and of 9 days ago, and a policy of 7 days.
    private func fixture() async throws -> StoreFixture {
        let fixture = try await StoreFixture()
        try await fixture.addRoles()
        try await fixture.script(
            """
            INSERT INTO upstream.retention_policy (messages, dedupe_window, dead_letters, attempts)
            VALUES ('30 days', '35 days', '90 days', '7 days');
            SELECT upstream.ensure_attempts(current_date - 10, current_date);
            INSERT INTO upstream.attempt_batches (
                settled_at, handler, worker, outcome, first_received, last_received, keys, ages, durations
            )
            SELECT now() - days * interval '1 day', 'orders', 'host:1', 'done', now(), now(), ARRAY[gen_random_uuid()],
                '{1}', '{1}'
            FROM unnest(ARRAY[0, 3, 9, 100]) AS days
            """
        )
        return fixture
    }

    private let days = "SELECT count(*) FROM upstream.attempt_partitions() WHERE until < now()"

    @Test("what is past the policy goes as whole days, with the worker's role, which can drop nothing else")
    func purge() async throws {
        let fixture = try await fixture()
        #expect(try await fixture.count("attempts") == 4)
        let worker = try await PostgresConnection.open(try fixture.settings(as: "w"))
        let before = try await fixture.integer(days) ?? 0
        let dropped = try await worker.run { connection throws(PostgresError) in
            try connection.query("SELECT dropped, locked FROM upstream.purge_attempts()").only {
                row throws(PostgresError) in
                [try row.next(Int.self), try row.next(Int.self)]
            }
        }
        #expect(dropped == [3, 0], "of ten days before today, seven and a half are kept")
        #expect(try await fixture.integer(days) == before - 3)
        #expect(try await fixture.count("attempts") == 2, "also what waited for a day of its own")
        for sql in [
            "DELETE FROM upstream.attempt_batches", "UPDATE upstream.attempt_batches SET outcome = 'done'",
            "TRUNCATE upstream.attempt_batches",
        ] {
            let error = await #expect(throws: PostgresError.self) {
                try await worker.run { connection throws(PostgresError) in try connection.script(sql) }
            }
            #expect(error?.failureClass == .permission)
        }
    }

    @Test("a day that somebody reads is kept for another run, and settlements go on meanwhile")
    func locked() async throws {
        let fixture = try await fixture()
        let reader = try await PostgresConnection.open(fixture.settings)
        try await reader.run { connection throws(PostgresError) in
            try connection.script("BEGIN; SELECT count(*) FROM upstream.attempts")
        }
        var pace = Retention.Pace()
        pace.attempts = 2
        pace.pause = .milliseconds(10)
        var report = try await Retention(fixture.admin, pace: pace).run()
        #expect(report.attemptDays == 0 && report.attemptDaysLocked == 1 && !report.isComplete)
        try await reader.run { connection throws(PostgresError) in try connection.script("ROLLBACK") }
        report = try await Retention(fixture.admin, pace: pace).run()
        #expect(report.attemptDays == 3 && report.attemptDaysLocked == 0 && report.isComplete)
    }

    @Test("a day with much in the rest stays there, so that no settlement waits for the move; the next day is made")
    func fullRest() async throws {
        let fixture = try await StoreFixture()
        try await fixture.script(
            """
            SELECT upstream.ensure_attempts(current_date - 1, current_date - 1);
            INSERT INTO upstream.attempt_batches (
                settled_at, handler, worker, outcome, first_received, last_received, keys, ages, durations
            )
            SELECT current_date + 400 + interval '1 hour', 'orders', 'host:1', 'done', now(), now(), '{}', '{}', '{}'
            FROM generate_series(1, 10001)
            """
        )
        let ensure = "SELECT upstream.ensure_attempts(current_date + 400, current_date + 403)"
        let rest = "SELECT count(*) FROM upstream.attempt_batches_rest"
        #expect(try await fixture.integer(ensure) == 1)
        #expect(try await fixture.integer(rest) == 10_001)
        try await fixture.script("DELETE FROM upstream.attempt_batches_rest WHERE ctid = '(0,1)'")
        #expect(try await fixture.integer(ensure) == 3, "little is moved")
        #expect(try await fixture.integer(rest) == 0)
    }

    @Test("an attempt is found by its message's key through the index on the time of arrival")
    func plan() async throws {
        let fixture = try await fixture()
        try await fixture.script(
            """
            INSERT INTO upstream.attempt_batches (
                settled_at, handler, worker, outcome, first_received, last_received, keys, ages, durations
            )
            SELECT now(), 'orders', 'host:1', 'done', now() - n * interval '1 second', now() - n * interval '1 second',
                ARRAY[gen_random_uuid()], '{1}', '{1}'
            FROM generate_series(1, 5000) AS n;
            ANALYZE upstream.attempt_batches
            """
        )
        let plan = try await fixture.texts(
            "EXPLAIN SELECT * FROM upstream.attempts_of('00000000-0000-0000-0000-000000000001', now() - interval '100 seconds')"
        ).joined(separator: "\n")
        #expect(plan.contains("Index") && !plan.contains("Function Scan on attempts_of"), "\(plan)")
    }

    @Test("a sql function's completion writes its attempt in the same transaction", arguments: [true, false])
    func function(isPresent: Bool) async throws {
        let fixture = try await DeliveriesFixture([.make("orders")])
        try await fixture.store.script(
            """
            CREATE TABLE public.taken (message_key uuid);
            CREATE FUNCTION public.take(message upstream.messages) RETURNS void LANGUAGE sql AS
                'INSERT INTO public.taken VALUES (message.message_key)'
            """
        )
        if !isPresent { try await fixture.store.script("ALTER TABLE upstream.attempt_batches RENAME TO former") }
        try await fixture.receive(1...1)
        let delivery = try #require(try await fixture.claim().first)
        guard case .stored(let message) = delivery.content else { return }
        let recording = AttemptRecording(worker: "host:1", isWanted: true)
        let caller = FunctionCaller(fixture.store.settings, recording: recording)
        func call() async throws -> AttemptEnd {
            await caller.call(
                try #require(SQLFunction("public.take")),
                handler: "orders",
                message,
                token: delivery.lease.token
            )
        }
        let end = try await call()
        #expect(recording.isOn == isPresent)
        guard case .settled = end else {
            Issue.record("\(end)")
            return
        }
        #expect(try await fixture.store.integer("SELECT count(*) FROM public.taken") == 1)
        if isPresent {
            let lines = try await fixture.store.texts(
                "SELECT concat_ws(' ', handler, attempt, outcome, worker, duration > '0') FROM upstream.attempts"
            )
            #expect(lines == ["orders 1 done host:1 t"])
        }
        await caller.close()
    }
}
