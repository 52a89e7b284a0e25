import IntegrationSupport
import MessageStore
import Postgres
import Testing

@testable import Replaying

@Suite("Replays to a handler that is removed", .timeLimit(.minutes(5)))
struct RemovedHandlerTests {
    private let left = "SELECT count(*) FROM upstream.deliveries WHERE handler = 'audit'"

    @Test("removing a handler deletes what was queued for it, and later steps skip it")
    func betweenSteps() async throws {
        let fixture = try await ReplayFixture()
        try await fixture.seed(30)
        try await fixture.plan(fixture.request())
        try await fixture.apply(.start)
        let lease = try await fixture.take(owner: "a")
        _ = try await fixture.step(lease, from: 0, count: 10)
        #expect(try await fixture.integer(left) > 0)
        try await unsubscribe(fixture)
        try await sweep(HandlerStates(fixture.admin))
        let others = try await fixture.integer("SELECT count(*) FROM upstream.deliveries")
        let planned = try await fixture.replay().planned
        let step = try await fixture.step(lease, from: 10, count: planned - 10)
        #expect(step.ending == nil && step.done == planned && step.skipped > 0)
        #expect(try await fixture.integer(left) == 0)
        let queued = try await fixture.integer("SELECT count(*) FROM upstream.deliveries") - others
        #expect(Int64(queued) + step.skipped == planned - 10)
    }

    @Test("a removal waits for the step in progress, and deletes what it queued")
    func duringStep() async throws {
        let fixture = try await ReplayFixture()
        try await fixture.seed(30)
        try await fixture.plan(fixture.request())
        try await fixture.apply(.start)
        let lease = try await fixture.take(owner: "a")
        try await unsubscribe(fixture)
        try await fixture.script(
            """
            CREATE FUNCTION public.hold() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN PERFORM pg_advisory_xact_lock(42); RETURN NULL; END $$;
            CREATE TRIGGER hold AFTER INSERT ON upstream.deliveries EXECUTE FUNCTION public.hold();
            SELECT pg_advisory_lock(42)
            """
        )
        let runner = try await PostgresConnection.open(fixture.settings)
        let remover = try await PostgresConnection.open(fixture.settings)
        let planned = try await fixture.replay().planned
        async let step = runner.run { connection throws(PostgresError) in
            try HandlerFeed.step(connection, lease, from: 0, count: planned).step
        }
        // The step has inserted its deliveries, holds the handlers' rows and does not commit.
        try await fixture.waitForBlocked(1)
        async let removal: Void = sweep(HandlerStates(remover))
        try await fixture.waitForBlocked(2)
        try await fixture.script("SELECT pg_advisory_unlock(42)")
        #expect(try await step.done == planned)
        try await removal
        #expect(try await fixture.integer(left) == 0)
        #expect(try await fixture.integer("SELECT count(*) FROM upstream.handlers WHERE name = 'audit'") == 0)
        await runner.close()
        await remover.close()
    }

    private func unsubscribe(_ fixture: ReplayFixture) async throws {
        try await fixture.script("UPDATE upstream.handlers SET seen_at = now() - interval '3 minutes'")
        try await HandlerStates(fixture.admin).unsubscribe("audit", by: .tester)
    }

    private func sweep(_ states: HandlerStates) async throws {
        while try await states.sweep("audit", limit: 7) > 0 {}
    }
}

extension ReplayFixture {
    /// Waits until this many sessions of the database wait for a lock.
    fileprivate func waitForBlocked(_ count: Int) async throws {
        let blocked = """
            SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
            """
        try await waitUntil { try await integer(blocked) >= count }
    }
}
