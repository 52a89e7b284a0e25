import Dispatcher
import Handlers
import MessageStore
import Postgres
import Testing
import Vocabulary

/// What waits for a row, or runs while its row is changed, sees the change: whatever isolation is the server's default.
@Suite(.timeLimit(.minutes(10))) struct DefaultIsolationTests {
    private static let isolations = ["read committed", "repeatable read", "serializable"]

    /// A message whose delivery is claimed, in a database with this default.
    private func fixture(_ isolation: String) async throws -> (DeliveriesFixture, Delivery) {
        let fixture = try await DeliveriesFixture()
        try await fixture.receive(1...1)
        let delivery = try #require(try await fixture.claim().first)
        try await fixture.store.setDefault("default_transaction_isolation", isolation)
        return (fixture, delivery)
    }

    @Test("a function during whose call the lease is extended completes", arguments: isolations)
    func extendedDuringTheCall(_ isolation: String) async throws {
        let (fixture, delivery) = try await fixture(isolation)
        try await fixture.store.script(
            """
            CREATE SCHEMA app;
            CREATE FUNCTION app.waits(message upstream.messages) RETURNS void LANGUAGE sql
            AS 'SELECT pg_advisory_xact_lock(4712)';
            """
        )
        let blocker = try await PostgresConnection.open(fixture.store.settings)
        try await blocker.run { connection throws(PostgresError) in
            try connection.script("SELECT pg_advisory_lock(4712)")
        }
        guard case .stored(let message) = delivery.content else {
            Issue.record("no message")
            return
        }
        let caller = FunctionCaller(fixture.store.settings)
        let function = try #require(SQLFunction("app.waits"))
        async let end = caller.call(function, handler: "orders", message, token: delivery.lease.token)
        try await fixture.store.waitUntil(
            """
            SELECT EXISTS (
                SELECT FROM pg_locks JOIN pg_database ON pg_database.oid = database
                WHERE datname = current_database() AND locktype = 'advisory' AND objid = 4712 AND NOT granted
            )
            """
        )
        let lease = [delivery.reference]
        #expect(try await fixture.deliveries.extend(lease, of: "orders", by: .seconds(60)) == Set(lease))
        await blocker.close()
        guard case .settled = await end else {
            Issue.record("\(await end)")
            return
        }
        await caller.close()
        #expect(try await fixture.count() == 0)
    }

    @Test("a settlement that waits for its row's heartbeat is written then", arguments: isolations)
    func settledAfterTheHeartbeat(_ isolation: String) async throws {
        let (fixture, delivery) = try await fixture(isolation)
        let blocker = try await PostgresConnection.open(fixture.store.settings)
        try await blocker.run { connection throws(PostgresError) in
            try connection.script("BEGIN; UPDATE upstream.deliveries SET lease_until = now() + interval '1 minute'")
        }
        let store = fixture.another()
        async let held = store.settle([delivery.settled(.done)], of: "orders")
        try await fixture.store.waitUntil(
            """
            SELECT EXISTS (
                SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
            )
            """
        )
        try await blocker.run { connection throws(PostgresError) in try connection.script("COMMIT") }
        #expect(try await held == 1)
        await blocker.close()
        await store.close()
    }

    @Test("registrations, heartbeats and shares see those before them, behind a pooler too", arguments: [false, true])
    func sharesSeeOthers(isPooled: Bool) async throws {
        let (fixture, _) = try await fixture("repeatable read")
        try await fixture.store.script(
            """
            CREATE TABLE public.levels (level text);
            CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                INSERT INTO public.levels VALUES (current_setting('transaction_isolation'));
                RETURN NULL;
            END $$;
            CREATE TRIGGER note AFTER INSERT OR UPDATE ON upstream.handler_workers EXECUTE FUNCTION public.note();
            """
        )
        let pooler = isPooled ? try Pgbouncer(before: SharedCluster.cluster) : nil
        defer { pooler?.stop() }
        let settings = try pooler?.settings(fixture.store) ?? fixture.store.settings
        if let pooler { #expect(try await pooler.connect(settings).isPooled) }
        let worker = PostgresDeliveryStore(settings, worker: "b")
        _ = try await worker.register([.make("orders")])
        _ = try await worker.backlog(["orders"])
        let request = ShareRequest(handler: "orders", whole: 2, most: 2, busy: 0, lease: .seconds(60))
        #expect(try await worker.share(request) == 2)
        await worker.close()
        let levels = try await fixture.store.text("SELECT string_agg(DISTINCT level, ', ') FROM public.levels")
        #expect(levels == "read committed")
    }
}
