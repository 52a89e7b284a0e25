import Dispatcher
import IntegrationSupport
import MessageStore
import Postgres
import Synchronization
import Testing
import UpstreamKit

/// Shares of a handler's limit over all workers.
@Suite struct ShareTests {
    private func request(_ whole: Int, most: Int = .max, busy: Int = 0, lease: Duration = .seconds(60)) -> ShareRequest
    {
        ShareRequest(handler: "orders", whole: whole, most: min(most, whole), busy: busy, lease: lease)
    }

    private func workers(_ fixture: DeliveriesFixture, _ count: Int) async throws -> [PostgresDeliveryStore] {
        var workers: [PostgresDeliveryStore] = []
        for number in 0..<count {
            let worker = fixture.another("w\(number)")
            _ = try await worker.register([.make("orders")])
            workers.append(worker)
        }
        return workers
    }

    @Test("Shares never add up to more than the whole, whoever asks when, and soon are equal", arguments: [1, 7, 10])
    func neverMoreThanTheWhole(_ whole: Int) async throws {
        let fixture = try await DeliveriesFixture()
        let workers = try await workers(fixture, 3)
        var shares = [0, 0, 0]
        var random = SystemRandomNumberGenerator()
        for _ in 0..<60 {
            let index = Int.random(in: 0..<3, using: &random)
            let busy = Int.random(in: 0...shares[index], using: &random)
            shares[index] = try #require(try await workers[index].share(request(whole, busy: busy)))
            #expect(shares[index] >= busy, "what runs keeps its place")
            #expect(shares.reduce(0, +) <= whole, "\(shares)")
        }
        for _ in 0..<3 {
            for index in 0..<3 { shares[index] = try await workers[index].share(request(whole)) ?? -1 }
        }
        #expect(shares.reduce(0, +) == whole, "\(shares)")
        #expect((shares.max() ?? 0) - (shares.min() ?? 0) <= max(1, whole % 3), "\(shares)")
    }

    @Test("Who can use less leaves the rest to others, and who stops leaves all of it")
    func leavesTheRest() async throws {
        let fixture = try await DeliveriesFixture()
        let workers = try await workers(fixture, 2)
        #expect(try await workers[0].share(request(10)) == 10, "alone")
        #expect(try await workers[1].share(request(10, most: 2)) == 0, "all of it is held")
        #expect(try await workers[0].share(request(10)) == 8, "and two are wanted")
        #expect(try await workers[1].share(request(10, most: 2)) == 2)
        await workers[0].close()
        #expect(try await workers[1].share(request(10)) == 10)
    }

    @Test("A silent worker's share is free after its time, and not before")
    func silent() async throws {
        let fixture = try await DeliveriesFixture()
        let workers = try await workers(fixture, 2)
        #expect(try await workers[0].share(request(4, lease: .seconds(3_600))) == 4)
        #expect(try await workers[1].share(request(4)) == 0)
        try await fixture.store.script("UPDATE upstream.handler_workers SET share_until = now() WHERE worker = 'w0'")
        #expect(try await workers[1].share(request(4)) == 4)
        // Heard of again, it runs some of what it had: no more than is free.
        #expect(try await workers[0].share(request(4, busy: 4)) == 0)
    }

    @Test("A limit that is being changed holds as the share of each worker's own")
    func changed() async throws {
        let fixture = try await DeliveriesFixture()
        let workers = try await workers(fixture, 2)
        _ = try await workers[0].share(request(10))
        _ = try await workers[1].share(request(4))
        #expect(try await workers[0].share(request(10)) == 5)
        #expect(try await workers[1].share(request(4)) == 2)
    }

    @Test("A locked row of the handler makes nobody wait, and leaves shares as they are")
    func locked() async throws {
        let fixture = try await DeliveriesFixture()
        let worker = try await workers(fixture, 1)[0]
        let blocker = try await PostgresConnection.open(fixture.store.settings)
        try await blocker.run { connection throws(PostgresError) in
            try connection.script("BEGIN; SELECT FROM upstream.handlers FOR UPDATE")
        }
        #expect(try await worker.share(request(4)) == nil)
        await blocker.close()
        // The server takes a moment to notice that its session is gone.
        try await waitUntil { try await worker.share(request(4)) == 4 }
        #expect(try await worker.share(ShareRequest(handler: "other", whole: 1, most: 1, busy: 0, lease: .zero)) == nil)
    }

    @Test("Two workers together never call a handler more often at a time than it may be; one goes on alone")
    func together() async throws {
        final class Calls: Sendable {
            let now = Mutex((running: 0, most: 0, all: 0))
            let isOpen = Mutex(false)
        }
        let calls = Calls()
        var handler = HandlerRegistration.make("orders") { _, _ in
            calls.now.withLock { now in
                now.running += 1
                now.most = max(now.most, now.running)
            }
            try await waitUntil { calls.isOpen.withLock { $0 } }
            calls.now.withLock { now in
                now.running -= 1
                now.all += 1
            }
            return .done
        }
        handler.limit = HandlerLimit(concurrency: 3)
        let fixture = try await DeliveriesFixture([handler])
        try await fixture.receive(1...40)
        let (first, second) = (fixture.dispatcher([handler]), fixture.dispatcher([handler], owner: "b"))
        try await fixture.run(first) {
            try await fixture.run(second) {
                try await fixture.store.waitUntil(
                    "SELECT count(*) = 2 FROM upstream.handler_workers WHERE share_until > now() AND worker IN ('a', 'b') AND share_most = 1"
                )
                try await waitUntil { calls.now.withLock { $0.running == 3 } }
                calls.isOpen.withLock { $0 = true }
                try await waitUntil { calls.now.withLock { $0.all == 40 } }
            }
            try await fixture.receive(41...60)
            try await waitUntil { calls.now.withLock { $0.all == 60 } }
        }
        #expect(calls.now.withLock { $0.most } == 3)
    }
}
