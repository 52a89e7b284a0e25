import Dispatcher
import MessageStore
import Postgres
import Testing
import UpstreamKit
import Vocabulary

@Suite("what the commands about handlers and dead letters do to the tables")
struct DeliveriesCommandsTests {
    /// Ten dead letters: 1 to 6 of one group, 7 to 10 of another.
    func dead() async throws -> DeliveriesFixture {
        let fixture = try await DeliveriesFixture()
        try await fixture.receive(1...10)
        let batch = try await fixture.claim().map { delivery in
            let group = delivery.number <= 6 ? "status 503" : "timeout"
            return delivery.settled(.dead(HandlerFailure(group: group, detail: "\(group)!"), isCounted: true))
        }
        #expect(try await fixture.deliveries.settle(batch, of: "orders") == 10)
        return fixture
    }

    @Test("dead letters are listed and grouped by every filter")
    func filters() async throws {
        let fixture = try await dead()
        let letters = DeadLetters(fixture.store.admin)
        #expect(try await letters.groups(DeadLetterFilter()).map(\.count) == [6, 4])
        #expect(try await letters.groups(DeadLetterFilter()).map(\.group) == ["status 503", "timeout"])
        var filter = DeadLetterFilter()
        filter.group = "timeout"
        #expect(try await letters.count(filter) == 4)
        #expect(try await letters.list(filter, limit: 2).map(\.error) == ["timeout!", "timeout!"])
        filter.category = "com.example.orders"
        #expect(try await letters.count(filter) == 4)
        filter.category = "com.example.other"
        #expect(try await letters.count(filter) == 0)
        filter = DeadLetterFilter()
        filter.messageKeys = [MessageKey(IncomingMessage.make(3).messageKey)]
        #expect(try await letters.list(filter, limit: 9).map(\.category) == ["com.example.orders"])
        filter = DeadLetterFilter()
        filter.handler = "another"
        #expect(try await letters.count(filter) == 0)
        filter = DeadLetterFilter()
        filter.until = Timestamp(microseconds: 0)
        #expect(try await letters.count(filter) == 0)
        filter.until = nil
        filter.since = Timestamp(microseconds: 0)
        #expect(try await letters.count(filter) == 10)
    }

    @Test("what is retried is due at once, with all attempts before it; what is discarded is gone")
    func move() async throws {
        let fixture = try await dead()
        let letters = DeadLetters(fixture.store.admin)
        var filter = DeadLetterFilter()
        filter.group = "status 503"
        #expect(try await letters.retry(filter, limit: 4, by: .tester) == 4)
        #expect(try await letters.retry(filter, limit: 4, by: .tester) == 2)
        #expect(try await letters.retry(filter, limit: 4, by: .tester) == 0)
        #expect(try await fixture.claim().map(\.attempts) == Array(repeating: 0, count: 6))
        #expect(try await letters.discard(DeadLetterFilter(), by: .tester) == 4)
        #expect(try await letters.count(DeadLetterFilter()) == 0)
        #expect(try await fixture.count() == 6)
    }

    @Test("what was counted and is as it was then is cancelled, and nothing that was given back or queued since")
    func cancelCounted() async throws {
        let fixture = try await DeliveriesFixture()
        try await fixture.receive(1...20)
        var request = ClaimRequest.make(limit: 10)
        request.lease = .seconds(4)
        let held = try await fixture.claim(request)
        let waiting = WaitingDeliveries(fixture.store.admin)
        let now = try await fixture.store.admin.databaseTime()
        var filter = WaitingFilter()
        filter.handler = "orders"
        let counts = try await waiting.count(filter, at: now)
        #expect(counts.free == 10 && counts.held == 10)
        filter.count = WaitingCount("\(WaitingCount(at: now, snapshot: counts.snapshot))")
        let failure = HandlerFailure(group: "boom", detail: "it went boom")
        let ended =
            held[..<3].map { $0.settled(.release(after: .zero)) }
            + held[3..<6].map { $0.settled(.retry(after: .zero, failure)) }
        #expect(try await fixture.deliveries.settle(ended, of: "orders") == 6)
        try await fixture.store.script(
            """
            INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at, replay_id)
            VALUES ('orders', md5('replayed')::uuid, now() - interval '1 day', now(), md5('friday')::uuid)
            """
        )
        try await fixture.store.waitUntil("SELECT bool_and(lease_until <= now()) FROM upstream.deliveries")
        let act = BulkAction.Act.waiting(.cancel, filter)
        #expect(try await BulkAction(act, total: 1_000, by: .tester, batch: 4).run(over: fixture.store.admin) == 10)
        #expect(try await fixture.count() == 11)
        #expect(
            try await fixture.store.count("dead_letters WHERE lease_token = 0 AND replay_id IS NULL") == 10
        )
        // Without a count, all that waits.
        filter.count = nil
        let all = BulkAction.Act.waiting(.cancel, filter)
        #expect(try await BulkAction(all, total: 1_000, by: .tester, batch: 4).run(over: fixture.store.admin) == 11)
    }

    @Test("handlers are listed with what waits, paused and resumed")
    func handlers() async throws {
        let fixture = try await dead()
        try await fixture.receive(11...13)
        let handlers = HandlerStates(fixture.store.admin)
        var state = try #require(try await handlers.list().first)
        #expect((state.name, state.depth, state.deadLetters) == ("orders", 3, 10))
        #expect(state.categories == ["*"] && !state.isPaused)
        let pause = try #require(try await handlers.pause("orders", for: .seconds(60), by: .tester("moving")))
        state = try #require(try await handlers.list().first)
        #expect(state.isPaused && state.pausedUntil == pause.until && state.pausedReason == "moving")
        let isMinute = "(SELECT paused_until - paused_at = interval '60 s' FROM upstream.handlers)"
        #expect(try await fixture.count(isMinute) == 3)
        #expect(try await fixture.claim().isEmpty)
        #expect(try await handlers.resume("orders", by: .tester))
        #expect(try await fixture.claim().count == 3)
        #expect(try await handlers.pause("unknown", for: nil, by: .tester) == nil)
        #expect(try await handlers.resume("unknown", by: .tester) == false)
    }

    @Test("a removed handler leaves nothing behind, and one that a worker runs stays")
    func remove() async throws {
        let fixture = try await DeliveriesFixture([.make("orders"), .make("legacy")])
        try await fixture.receive(1...30)
        let states = HandlerStates(fixture.store.admin)
        #expect(try await fixture.deliveries.unclaimed().isEmpty)
        await #expect(throws: HandlerRemovalError.claimed) { try await states.unsubscribe("legacy", by: .tester) }
        try await fixture.store.script(
            """
            UPDATE upstream.handlers SET seen_at = now() - interval '3 minutes' WHERE name = 'legacy';
            INSERT INTO upstream.dead_letters (
                handler, message_key, received_at, attempts, next_attempt_at, lease_token, error_group
            ) SELECT handler, gen_random_uuid(), received_at, 1, now(), 0, 'x' FROM upstream.deliveries LIMIT 40
            """
        )
        #expect(try await fixture.deliveries.unclaimed() == ["legacy"])
        #expect(try await states.list().map(\.isClaimed) == [false, true])
        try await states.unsubscribe("legacy", by: .tester)
        // Received between the two steps.
        try await fixture.receive(31...33)
        var deleted = 0
        while case let count = try await states.sweep("legacy", limit: 7), count > 0 { deleted += count }
        #expect(deleted >= 30)
        #expect(try await fixture.count("handler = 'legacy'") == 0)
        #expect(try await fixture.count("handler = 'orders'") == 33)
        let left = "SELECT count(*) FROM upstream.dead_letters WHERE handler = 'legacy'"
        #expect(try await fixture.store.integer(left) == 0)
        #expect(try await states.list().map(\.name) == ["orders"])
        await #expect(throws: HandlerRemovalError.unknown) { try await states.unsubscribe("legacy", by: .tester) }
        #expect(try await fixture.deliveries.unclaimed().isEmpty)
    }

    @Test(
        "a worker that runs a handler again in the middle of its removal keeps it, and what it is to get from then on"
    )
    func returns() async throws {
        let fixture = try await DeliveriesFixture([.make("legacy")])
        try await fixture.receive(1...30)
        let states = HandlerStates(fixture.store.admin)
        try await fixture.store.script("UPDATE upstream.handlers SET seen_at = now() - interval '3 minutes'")
        try await states.unsubscribe("legacy", by: .tester)
        #expect(try await states.sweep("legacy", limit: 7) == 7)
        _ = try await fixture.another("b").register([.make("legacy")])
        try await fixture.receive(31...33)
        await #expect(throws: HandlerRemovalError.claimed) { _ = try await states.sweep("legacy", limit: 7) }
        #expect(try await fixture.count("handler = 'legacy'") == 26)
        #expect(try await states.list().map(\.name) == ["legacy"])
    }

    @Test("a batch that is being stored while its handler is removed leaves no delivery behind")
    func removeDuringBatch() async throws {
        let fixture = try await DeliveriesFixture([.make("legacy")])
        try await fixture.store.script("UPDATE upstream.handlers SET seen_at = now() - interval '3 minutes'")
        let states = HandlerStates(fixture.store.admin)
        // A batch that has read the subscriptions and not committed: what store_batch does, held open.
        let batch = try await PostgresConnection.open(fixture.store.settings)
        try await batch.run { connection throws(PostgresError) in
            try connection.script(
                """
                BEGIN;
                INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at)
                SELECT handler, gen_random_uuid(), now(), now() FROM upstream.subscriptions
                """
            )
        }
        // While it is open the removal can't go on, so it can't miss the batch's rows.
        await #expect(throws: PostgresError.self) { try await states.unsubscribe("legacy", by: .tester) }
        try await batch.run { connection throws(PostgresError) in try connection.script("COMMIT") }
        await batch.close()
        try await states.unsubscribe("legacy", by: .tester)
        while try await states.sweep("legacy") > 0 {}
        #expect(try await fixture.count() == 0)
    }
}
