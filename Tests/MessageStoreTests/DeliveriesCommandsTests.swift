import MessageStore
import Pipeline
import Postgres
import Testing
import UpstreamKit

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
        filter.messageKey = MessageKey(IncomingMessage.make(3).messageKey)
        #expect(try await letters.list(filter, limit: 9).map(\.category) == ["com.example.orders"])
        filter = DeadLetterFilter()
        filter.handler = "another"
        #expect(try await letters.count(filter) == 0)
        filter = DeadLetterFilter()
        filter.until = 0
        #expect(try await letters.count(filter) == 0)
        filter.until = nil
        filter.since = 0
        #expect(try await letters.count(filter) == 10)
    }

    @Test("what is retried is due at once, with all attempts before it; what is discarded is gone")
    func move() async throws {
        let fixture = try await dead()
        let letters = DeadLetters(fixture.store.admin)
        var filter = DeadLetterFilter()
        filter.group = "status 503"
        #expect(try await letters.retry(filter, limit: 4) == 4)
        #expect(try await letters.retry(filter, limit: 4) == 2)
        #expect(try await letters.retry(filter, limit: 4) == 0)
        #expect(try await fixture.claim().map(\.attempts) == Array(repeating: 0, count: 6))
        #expect(try await letters.discard(DeadLetterFilter()) == 4)
        #expect(try await letters.count(DeadLetterFilter()) == 0)
        #expect(try await fixture.count() == 6)
    }

    @Test("handlers are listed with what waits, paused and resumed")
    func handlers() async throws {
        let fixture = try await dead()
        try await fixture.receive(11...13)
        let handlers = HandlerStates(fixture.store.admin)
        var state = try #require(try await handlers.list().first)
        #expect((state.name, state.depth, state.deadLetters) == ("orders", 3, 10))
        #expect(state.categories == ["*"] && !state.isPaused)
        let until = IncomingMessage.now() + 60_000_000
        #expect(try await handlers.pause("orders", until: until, reason: "moving"))
        state = try #require(try await handlers.list().first)
        #expect(state.isPaused && state.pausedUntil == until && state.pausedReason == "moving")
        #expect(try await fixture.claim().isEmpty)
        #expect(try await handlers.resume("orders"))
        #expect(try await fixture.claim().count == 3)
        #expect(try await handlers.pause("unknown", until: nil, reason: nil) == false)
        #expect(try await handlers.resume("unknown") == false)
    }
}
