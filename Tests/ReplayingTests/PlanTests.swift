import Querying
import Testing

@testable import Replaying

extension ReplayDatabaseTests {
    @Test("a plan is frozen: messages stored later do not join it")
    func frozen() async throws {
        let fixture = try await ReplayFixture()
        try await fixture.seed(2_500)
        let plan = try await fixture.plan(fixture.request("r", .other(.output(path: "/tmp/x", format: .ndjson))))
        #expect(plan.planned == 2_500 && plan.selected == 2_500 && plan.sample.count == 4)
        try await fixture.seed(100, startingAt: 3_000)
        #expect(
            try await fixture.integer("SELECT sum(cardinality(message_key)) FROM upstream.replay_messages") == 2_500
        )
        #expect(try await fixture.integer("SELECT count(*) FROM upstream.replay_messages") == 3)
        let isOrdered = try await fixture.integer(
            """
            SELECT count(*) FROM (
                SELECT t.at, lag(t.at) OVER (ORDER BY r.chunk, t.n) AS before FROM upstream.replay_messages AS r,
                    unnest(received_at) WITH ORDINALITY AS t (at, n)
            ) AS pairs WHERE at < before
            """
        )
        #expect(isOrdered == 0)
    }

    @Test("a plan counts what each handler has handled, has pending, gave up on, and never got")
    func standings() async throws {
        let fixture = try await ReplayFixture()
        try await fixture.seed(300)
        // 10 dead letters and 5 pending deliveries, at a handler that was registered long before.
        try await fixture.script(
            """
            INSERT INTO upstream.dead_letters (
                handler, message_key, received_at, attempts, next_attempt_at, lease_token, error_group
            ) SELECT 'audit', message_key, received_at, 3, now(), 1, 'g' FROM upstream.messages ORDER BY received_at LIMIT 10;
            INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at)
            SELECT 'audit', message_key, received_at, now() FROM upstream.messages ORDER BY received_at DESC LIMIT 5
            """
        )
        let plan = try await fixture.plan(fixture.request("a", .handlers([], .notHandled)))
        let audit = ReplayPlan.HandlerCounts(
            handler: "audit",
            dead: 10,
            new: 0,
            pending: 5,
            handled: 285,
            planned: 10
        )
        let orders = ReplayPlan.HandlerCounts(
            handler: "orders",
            dead: 0,
            new: 100,
            pending: 0,
            handled: 0,
            planned: 100
        )
        #expect(plan.handlers == [audit, orders] && plan.planned == 110)
        let all = try await fixture.plan(fixture.request("b", .handlers(["audit"], .all)))
        #expect(all.planned == 295)
        let failed = try await fixture.plan(fixture.request("c", .handlers(["audit"], .onlyFailed)))
        #expect(failed.planned == 10)
        let named = try await fixture.plan(fixture.request("d", .handlers(["orders"], .all)))
        #expect(named.planned == 300, "a named handler gets what is selected, whatever it is subscribed to")
    }

    @Test("subscribed means by prefix and by data; a named handler gets what is selected")
    func filtered() async throws {
        let fixture = try await ReplayFixture()
        try await fixture.seed(30)
        try await fixture.script(
            """
            DELETE FROM upstream.subscriptions;
            INSERT INTO upstream.handlers (name) VALUES ('prefix'), ('small'), ('none');
            INSERT INTO upstream.subscriptions VALUES
                ('prefix', 'com.example.*', false, NULL), ('prefix', 'com.example.orders', false, NULL),
                ('small', 'com.example.*', false, '[[{"path": "{n}", "test": "<", "is": 10}]]'),
                ('none', 'com.example.orders.*', false, NULL)
            """
        )
        let plan = try await fixture.plan(fixture.request("a", .handlers([], .all)))
        let counts = plan.handlers.filter { $0.planned > 0 }.map { "\($0.handler) \($0.planned)" }
        #expect(counts.sorted() == ["prefix 30", "small 9"])
        let named = try await fixture.plan(fixture.request("b", .handlers(["small"], .all)))
        #expect(named.planned == 30)
    }

    @Test("a dry run keeps nothing, a name can be used once at a time, and unknown handlers are rejected")
    func refusals() async throws {
        let fixture = try await ReplayFixture()
        try await fixture.seed(10)
        let dry = try await fixture.plan(fixture.request(), isDryRun: true)
        #expect(dry.planned == 13 && dry.id == nil)
        #expect(try await fixture.integer("SELECT count(*) FROM upstream.replays") == 0)
        try await fixture.plan(fixture.request())
        await #expect(throws: ReplayError.self) { try await fixture.plan(fixture.request()) }
        await #expect(throws: ReplayError.self) {
            try await fixture.plan(fixture.request("s", .handlers(["stranger"], .all)))
        }
        var request = fixture.request("none")
        request.filter.categories = ["nobody"]
        let none = try await fixture.plan(request)
        #expect(none.planned == 0 && none.id == nil)
        try await fixture.apply(.cancel)
        #expect(try await fixture.integer("SELECT count(*) FROM upstream.replay_messages") == 0)
        try await fixture.plan(fixture.request())
    }

    @Test("only one replay at a time may send to a target, even if two share just one handler")
    func targets() async throws {
        let fixture = try await ReplayFixture()
        try await fixture.seed(10)
        try await fixture.plan(fixture.request("both", .handlers([], .all)))
        try await fixture.plan(fixture.request("one", .handlers(["audit"], .all)))
        try await fixture.plan(fixture.request("file", .other(.output(path: "/tmp/x", format: .ndjson))))
        try await fixture.apply(.start, "both")
        await #expect(throws: ReplayError.self) { try await fixture.apply(.start, "one") }
        try await fixture.apply(.pause, "both")
        await #expect(throws: ReplayError.self) { try await fixture.apply(.start, "one") }
        try await fixture.apply(.start, "file")
        try await fixture.apply(.cancel, "both")
        try await fixture.apply(.start, "one")
    }
}
