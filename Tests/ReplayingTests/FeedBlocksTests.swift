import Dispatcher
import Postgres
import Synchronization
import Testing
import UpstreamKit
import Vocabulary

@testable import Replaying

/// Replays that hand their messages over to the handlers of their own process.
@Suite("replays into blocks", .serialized, .timeLimit(.minutes(10)))
struct FeedBlocksTests {
    /// Takes everything, and keeps account.
    private final class Intake: ReplayIntake {
        struct Book {
            var room: ReplayRoom?
            var offers: Int64 = 0
            var open = 0
            var handed: [ReplayedMessage] = []
        }

        let book = Mutex(Book())

        func offer(toReplay count: Int, to handlers: [String]) -> ReplayRoom {
            book.withLock { book in
                if let room = book.room { return room }
                book.offers += 1
                book.open += 1
                return .offer(FeedBlocksTests.offer(book.offers), min(count, 7))
            }
        }

        func committed(_ offer: LeaseOffer, replayed deliveries: [ReplayedMessage], by replay: Digest128) {
            book.withLock {
                $0.open -= 1
                $0.handed += deliveries
            }
        }

        func withdrawn(_ offer: LeaseOffer) { book.withLock { $0.open -= 1 } }
    }

    static func offer(_ block: Int64) -> LeaseOffer {
        var offer = LeaseOffer(
            handlers: ["orders"],
            local: ["orders"],
            owner: "a",
            token: 7,
            duration: .seconds(60)
        )
        offer.packed = ["orders"]
        offer.bytes = 1 << 20
        offer.block = block
        return offer
    }

    private func started(_ fixture: ReplayFixture) async throws -> ReplayLease {
        try await fixture.seed(30)
        try await fixture.plan(fixture.request("r", .handlers(["orders"], .all)))
        try await fixture.apply(.start)
        return try await fixture.take(owner: "a")
    }

    private func step(
        _ fixture: ReplayFixture,
        _ lease: ReplayLease,
        from position: Int64,
        count: Int64,
        block: Int64 = 1
    ) async throws -> (step: HandlerFeed.Step, messages: [ReplayedMessage]?) {
        try await fixture.admin.run { connection throws(PostgresError) in
            try HandlerFeed.step(connection, lease, from: position, count: count, to: Self.offer(block))
        }
    }

    private let held = "SELECT coalesce(sum(cardinality(keys)), 0) FROM upstream.delivery_blocks"

    @Test("a step moves the position and holds what it returns in a block, in one transaction")
    func block() async throws {
        let fixture = try await ReplayFixture()
        let lease = try await started(fixture)
        let first = try await step(fixture, lease, from: 0, count: 25)
        #expect(first.step == HandlerFeed.Step(done: 25, skipped: 0))
        #expect(first.messages?.count == 25)
        #expect(first.messages?.allSatisfy { $0.handler == "orders" && $0.message.senderID == "1" } == true)
        let id = try await fixture.replay().id
        let block = "\(held) WHERE replay_id = '\(id)' AND token = 7 AND number = 1 AND lease_until > now()"
        #expect(try await fixture.integer(block) == 25)
        #expect(try await fixture.integer("SELECT count(*) FROM upstream.deliveries") == 0)
        // The same step again, as after a lost reply, changes nothing, and nobody is told that it has the messages.
        let again = try await step(fixture, lease, from: 0, count: 25, block: 2)
        #expect(again.step == first.step && again.messages == nil)
        #expect(try await fixture.integer(held) == 25)
        // Of a worker that died, others take over, with the replay's name.
        try await fixture.script(
            "UPDATE upstream.delivery_blocks SET lease_until = now(); SELECT upstream.unpack_expired()"
        )
        #expect(try await fixture.integer("SELECT count(*) FROM upstream.deliveries WHERE replay_id = '\(id)'") == 25)
    }

    @Test(
        "a step ends where its messages fill the bytes of the offer, one at least; a reply that is lost changes nothing"
    )
    func bytes() async throws {
        let fixture = try await ReplayFixture()
        let lease = try await started(fixture)
        // The replay begins with the last; the second of its messages is gone.
        try await fixture.script(
            """
            UPDATE upstream.messages SET data = to_json(repeat('x', 400000));
            DELETE FROM upstream.messages WHERE message_id = 'm-29'
            """
        )
        let first = try await step(fixture, lease, from: 0, count: 25)
        #expect(first.step == HandlerFeed.Step(done: 4, skipped: 1))
        #expect(first.messages?.map(\.message.messageID) == ["m-30", "m-28", "m-27"])
        #expect(try await fixture.integer(held) == 3)
        let again = try await step(fixture, lease, from: 0, count: 25, block: 2)
        #expect(again.step == first.step && again.messages == nil)
        var (done, block): (Int64, Int64) = (4, 3)
        while done < 30 {
            let next = try await step(fixture, lease, from: done, count: 30 - done, block: block)
            try #require(next.step.ending == nil && next.step.done > done)
            #expect(next.messages?.count == Int(next.step.done - done))
            (done, block) = (next.step.done, block + 1)
        }
        #expect(try await fixture.integer(held) == 29)
        #expect(try await fixture.replay().skipped == 1)
    }

    @Test("a file's or an endpoint's replay reads as many messages as fit")
    func reading() async throws {
        let fixture = try await ReplayFixture()
        _ = try await started(fixture)
        try await fixture.script(
            """
            UPDATE upstream.messages SET data = to_json(repeat('x', 1000000));
            DELETE FROM upstream.messages WHERE message_id = 'm-30'
            """
        )
        let id = try await fixture.replay().id
        let items = try await fixture.admin.run { connection throws(PostgresError) in
            try ReplayItem.read(connection, SelectionStatements.Span(replay: id, start: 0, limit: 250))
        }
        #expect(items.map(\.position) == Array(0..<6))
        #expect(items.map(\.isGone) == [true, false, false, false, false, false])
    }

    @Test("a runner whose lease another has taken puts nothing into blocks")
    func fencing() async throws {
        let fixture = try await ReplayFixture()
        let old = try await started(fixture)
        try await fixture.script("UPDATE upstream.replays SET lease_until = now() - interval '1 s'")
        _ = try await fixture.take(owner: "new")
        let late = try await step(fixture, old, from: 0, count: 10)
        #expect(late.step.ending == .lost && late.messages == nil)
        #expect(try await fixture.integer(held) == 0)
        #expect(try await fixture.replay().done == 0)
    }

    @Test("what waits already is skipped; dead letters and what goes by device become rows")
    func rows() async throws {
        let fixture = try await ReplayFixture()
        let lease = try await started(fixture)
        try await fixture.script(
            """
            INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at)
            SELECT 'orders', message_key, received_at, now() FROM upstream.messages WHERE message_id = 'm-30';
            INSERT INTO upstream.dead_letters (
                handler, message_key, received_at, attempts, next_attempt_at, lease_token, error_group)
            SELECT 'orders', message_key, received_at, 1, now(), 1, 'g' FROM upstream.messages WHERE message_id = 'm-1'
            """
        )
        let first = try await step(fixture, lease, from: 0, count: 10)
        #expect(first.step == HandlerFeed.Step(done: 10, skipped: 1) && first.messages?.count == 9)
        // The last of them is the newest, which is dead.
        let second = try await step(fixture, lease, from: 10, count: 20, block: 2)
        #expect(second.step.done == 30 && second.messages == nil)
        #expect(try await fixture.integer("SELECT count(*) FROM upstream.deliveries") == 21)
        #expect(try await fixture.integer("SELECT count(*) FROM upstream.dead_letters") == 0)
        #expect(try await fixture.integer(held) == 9)
    }

    @Test("a run hands over all of it step by step, and takes rows where its process has no such handler")
    func run() async throws {
        let fixture = try await ReplayFixture()
        try await fixture.seed(30)
        try await fixture.plan(fixture.request("r", .handlers(["orders"], .all)))
        let running = try await fixture.apply(.start)
        let intake = Intake()
        #expect(try await fixture.runner(intake: intake).run(running) == .finished)
        let book = intake.book.withLock { $0 }
        #expect(book.open == 0 && book.offers == 5)
        #expect(Set(book.handed.map(\.message.messageID)) == Set((1...30).map { "m-\($0)" }))
        #expect(book.handed.count == 30)
        #expect(try await fixture.integer(held) == 30)
        intake.book.withLock { $0.room = .rows }
        try await fixture.script("DELETE FROM upstream.delivery_blocks")
        let again = try await fixture.apply(.startAgain)
        #expect(try await fixture.runner(intake: intake).run(again) == .finished)
        #expect(try await fixture.integer("SELECT count(*) FROM upstream.deliveries") == 30)
    }
}
