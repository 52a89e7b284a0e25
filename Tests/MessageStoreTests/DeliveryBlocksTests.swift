import Dispatcher
import IntegrationSupport
import MessageStore
import Postgres
import Testing
import UpstreamKit
import Vocabulary

/// Deliveries that the receiving worker holds, a batch of one handler in a row.
@Suite("deliveries in blocks")
struct DeliveryBlocksTests {
    /// A handler's table, and a process with its token.
    struct Stage {
        let fixture: DeliveriesFixture
        let token: Int64

        init(_ handlers: [HandlerRegistration] = [.make("orders")]) async throws {
            fixture = try await DeliveriesFixture([])
            token = try await fixture.deliveries.register(handlers)
        }

        func offer(_ block: Int64 = 1, handlers: [String] = ["orders"], lease: Duration = .seconds(60)) -> LeaseOffer {
            var offer = LeaseOffer(handlers: handlers, local: handlers, owner: "a", token: token, duration: lease)
            offer.packed = handlers
            offer.block = block
            return offer
        }

        /// Stores messages as ingest does.
        @discardableResult
        func store(
            _ numbers: ClosedRange<UInt64>,
            _ offer: LeaseOffer,
            category: String = "com.example.orders"
        ) async throws -> [StoreOutcome] {
            let start = IncomingMessage.now()
            let batch = numbers.map { IncomingMessage.make($0, receivedAt: start + Int64($0), category: category) }
            return try await fixture.writer.commit(batch, leasing: offer, isRetry: false)
        }

        func settle(_ block: Int64 = 1, count: Int, done: ClosedRange<UInt64>?) async throws -> Int {
            let keys = (done.map(Array.init) ?? []).map { Digest128.key($0) }
            let settlement = BlockSettlement(number: block, token: token, count: count, done: keys)
            return try await fixture.deliveries.settle([settlement], of: "orders")
        }

        func blocks(_ condition: String = "true") async throws -> Int64? {
            try await fixture.store.integer("SELECT count(*) FROM upstream.delivery_blocks WHERE \(condition)")
        }

        /// Ends the leases of all blocks, as time does.
        func expire() async throws {
            try await fixture.store.script(
                "UPDATE upstream.delivery_blocks SET lease_until = now() - interval '1 second'"
            )
        }
    }

    @Test("a batch is one row, and is completed as one")
    func complete() async throws {
        let stage = try await Stage()
        try await stage.store(1...40, stage.offer())
        #expect(try await stage.blocks("cardinality(keys) = 40 AND cardinality(times) = 40") == 1)
        #expect(try await stage.fixture.count() == 0)
        #expect(try await stage.fixture.claim().isEmpty)
        #expect(try await stage.settle(count: 40, done: 1...40) == 40)
        #expect(try await stage.blocks() == 0)
        #expect(try await stage.fixture.count() == 0)
    }

    @Test("what is not done becomes rows under the same lease, which are settled one by one")
    func unpack() async throws {
        let stage = try await Stage()
        try await stage.store(1...40, stage.offer())
        #expect(try await stage.settle(count: 40, done: 1...30) == 30)
        #expect(try await stage.blocks() == 0)
        let held = "lease_owner = 'a' AND lease_token = \(stage.token) AND lease_until > now() AND attempts = 0"
        #expect(try await stage.fixture.count(held) == 10)
        #expect(try await stage.fixture.claim().isEmpty, "the lease holds")
        let rest = (31...40).map { Settlement(messageKey: .key($0), token: stage.token, outcome: .done, block: 1) }
        #expect(try await stage.fixture.deliveries.settle(rest, of: "orders") == 10)
        #expect(try await stage.fixture.count() == 0)
    }

    @Test("of a worker that died, another takes over everything, and its late word counts for nothing")
    func takeOver() async throws {
        let stage = try await Stage()
        try await stage.store(1...40, stage.offer())
        try await stage.expire()
        let other = stage.fixture.another()
        let taken = try await other.claim(.make(owner: "b"))
        #expect(taken.map(\.number).sorted() == Array(1...40))
        #expect(taken.allSatisfy { $0.crashes == 1 && $0.attempts == 0 })
        #expect(try await stage.settle(count: 40, done: 1...40) == 0)
        #expect(try await stage.fixture.count("lease_owner = 'b'") == 40)
    }

    @Test("a worker of the version before takes over too: its heartbeat unpacks what has expired")
    func oldWorker() async throws {
        let stage = try await Stage()
        try await stage.store(1...40, stage.offer())
        try await stage.fixture.store.script("SELECT upstream.keep_handlers(0)")
        #expect(try await stage.blocks() == 1, "the lease holds")
        try await stage.expire()
        try await stage.fixture.store.script("SELECT upstream.keep_handlers(0)")
        #expect(try await stage.blocks() == 0)
        #expect(try await stage.fixture.count("lease_owner = 'a' AND lease_until <= now()") == 40)
    }

    @Test("a block that holds more than its worker knows of is never completed: the rest is delivered from rows")
    func unknown() async throws {
        let stage = try await Stage()
        try await stage.store(1...40, stage.offer())
        #expect(try await stage.settle(count: 39, done: 1...39) == 39)
        #expect(try await stage.fixture.count("lease_owner = 'a'") == 1)
        try await stage.fixture.pass("61 s")
        #expect(try await stage.fixture.claim(.make(owner: "b")).map(\.number) == [40])
    }

    @Test(
        "only what the worker asks for is in the block: the others' categories, known messages and devices' queues are not"
    )
    func contents() async throws {
        let stage = try await Stage([
            .make("orders", ["com.example.orders"]), .make("queue", ordering: .device),
        ])
        try await stage.store(1...20, .none)
        try await stage.fixture.store.script("DELETE FROM upstream.deliveries")
        // Half of them known.
        try await stage.store(11...40, stage.offer(handlers: ["orders", "queue"]))
        #expect(try await stage.blocks("handler = 'orders' AND cardinality(keys) = 20") == 1)
        #expect(try await stage.blocks() == 1)
        #expect(try await stage.fixture.count("handler = 'queue' AND lease_owner = 'a'") == 20)
        #expect(try await stage.fixture.count() == 20)
        try await stage.store(41...60, stage.offer(2, handlers: ["orders", "queue"]), category: "com.example.chat")
        #expect(try await stage.blocks() == 1)
    }

    @Test("a message that was erased while a dead worker's block held it is not delivered")
    func erased() async throws {
        let stage = try await Stage()
        try await stage.store(1...20, stage.offer())
        try await stage.fixture.store.script("DELETE FROM upstream.messages")
        try await stage.store(21...40, stage.offer(2))
        try await stage.expire()
        #expect(try await stage.fixture.claim().map(\.number).sorted() == Array(21...40))
    }

    @Test("a message that was erased while its worker held it gets no row when the block is unpacked")
    func erasedUnderWay() async throws {
        let stage = try await Stage()
        try await stage.store(1...20, stage.offer())
        try await stage.fixture.store.script("DELETE FROM upstream.messages")
        _ = try await stage.settle(count: 20, done: 1...5)
        #expect(try await stage.fixture.store.integer("SELECT count(*) FROM upstream.deliveries") == 0)
        #expect(try await stage.blocks() == 0)
    }

    @Test("removing a handler removes its blocks")
    func removed() async throws {
        let stage = try await Stage()
        try await stage.store(1...20, stage.offer())
        let states = HandlerStates(try await PostgresConnection.open(stage.fixture.store.settings))
        await #expect(throws: HandlerRemovalError.claimed) { _ = try await states.sweep("orders") }
        #expect(try await stage.blocks() != 0)
        try await stage.fixture.store.script("UPDATE upstream.handlers SET seen_at = now() - interval '3 minutes'")
        _ = try await states.sweep("orders")
        #expect(try await stage.blocks() == 0)
    }

    // MARK: With a dispatcher

    @Test("a fast handler's deliveries never have rows, and nothing of them stays")
    func fast() async throws {
        let seen = Seen()
        let handlers = [HandlerRegistration.make("orders", seen: seen)]
        let fixture = try await DeliveriesFixture(handlers)
        let inserted = "SELECT pg_stat_get_tuples_inserted('upstream.deliveries'::regclass)"
        let service = fixture.dispatcher(handlers)
        try await fixture.run(service) {
            await service.waitUntilSubscribed()
            for batch: UInt64 in 0..<5 {
                try await fixture.receive(batch * 100 + 1...batch * 100 + 100, through: service.intake)
            }
            try await waitUntil { seen.all.count == 500 }
        }
        #expect(seen.all.sorted() == Array(1...500))
        #expect(try await fixture.store.integer("SELECT count(*) FROM upstream.delivery_blocks") == 0)
        #expect(try await fixture.count() == 0)
        #expect(try await fixture.store.integer(inserted) == 0)
    }

    @Test("a slow handler's block becomes rows, so that a crash repeats little of what is done")
    func slow() async throws {
        let gate = Gate()
        let seen = Seen()
        let handlers = [
            HandlerRegistration.make("orders") { message, _ in
                if message.messageKey.digest.low == 20 { await gate.wait() }
                seen.add(message)
                return .done
            }
        ]
        let fixture = try await DeliveriesFixture(handlers)
        let service = fixture.dispatcher(handlers)
        try await fixture.run(service) {
            await service.waitUntilSubscribed()
            try await fixture.receive(1...40, through: service.intake)
            try await waitUntil { seen.all.count == 39 }
            try await waitUntil { try await fixture.count() == 1 }
            #expect(try await fixture.count("lease_owner = 'a' AND attempts = 0") == 1)
            gate.open()
            try await waitUntil { try await fixture.count() == 0 }
        }
        #expect(seen.all.sorted() == Array(1...40))
    }

    @Test("a failure in a block is retried, and nothing else of it comes again")
    func failure() async throws {
        let seen = Seen()
        let handlers = [
            HandlerRegistration.make("orders") { message, context in
                seen.add(message)
                let isBad = message.messageKey.digest.low == 7 && context.attempt == 1
                return isBad ? .retry(after: .milliseconds(1), reason: "no") : .done
            }
        ]
        let fixture = try await DeliveriesFixture(handlers)
        let service = fixture.dispatcher(handlers)
        try await fixture.run(service) {
            await service.waitUntilSubscribed()
            try await fixture.receive(1...40, through: service.intake)
            try await waitUntil { seen.all.count == 41 }
            try await waitUntil { try await fixture.count() == 0 }
        }
        #expect(seen.all.sorted() == [1, 2, 3, 4, 5, 6, 7] + Array(7...40))
    }

    @Test("a batch whose commit may have come through is delivered once, after the retry")
    func retriedCommit() async throws {
        let seen = Seen()
        let handlers = [HandlerRegistration.make("orders", seen: seen)]
        let fixture = try await DeliveriesFixture(handlers)
        let service = fixture.dispatcher(handlers)
        try await fixture.run(service) {
            await service.waitUntilSubscribed()
            let start = IncomingMessage.now()
            let batch = (1...40).map { IncomingMessage.make($0, receivedAt: start + Int64($0)) }
            // Commits, and its reply is lost.
            let lost = service.intake.offer(for: batch.count, bytes: 0)
            #expect(lost.packed == ["orders"])
            _ = try await fixture.writer.commit(batch, leasing: lost, isRetry: false)
            service.intake.withdrawn(lost)
            // As ingest does it.
            var again = service.intake.offer(for: batch.count, bytes: 0)
            again.packed = []
            let outcomes = try await fixture.writer.commit(batch, leasing: again, isRetry: true)
            service.intake.committed(again, messages: batch, outcomes: outcomes)
            try await waitUntil { seen.all.count == 40 }
            try await waitUntil { try await fixture.count() == 0 }
        }
        #expect(seen.all.sorted() == Array(1...40))
        #expect(try await fixture.store.integer("SELECT count(*) FROM upstream.delivery_blocks") == 0)
    }
}

extension Digest128 {
    /// The key of the message with a number.
    fileprivate static func key(_ number: UInt64) -> Digest128 { IncomingMessage.make(number).messageKey }
}
