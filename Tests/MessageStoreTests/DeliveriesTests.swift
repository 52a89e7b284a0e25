import Dispatcher
import Ingest
import IntegrationSupport
import MessageStore
import Postgres
import Synchronization
import Testing
import UpstreamKit
import Vocabulary

@Suite("deliveries in PostgreSQL")
struct DeliveriesTests {
    let failure = HandlerFailure(group: "status 503", detail: "the endpoint answered 503")

    // MARK: Subscriptions

    @Test("a stored message gets a delivery for each handler subscribed to its category")
    func subscriptions() async throws {
        let fixture = try await DeliveriesFixture([
            .make("all"), .make("orders", ["com.example.orders"]), .make("other", ["com.example.other"]),
        ])
        try await fixture.receive(1...3)
        #expect(try await fixture.count("handler = 'all'") == 3)
        #expect(try await fixture.count("handler = 'orders'") == 3)
        #expect(try await fixture.count("handler = 'other'") == 0)
        // A redelivery is no new message.
        try await fixture.receive(1...3)
        #expect(try await fixture.count() == 6)
    }

    @Test("registering again changes the subscriptions from the next message on")
    func registerAgain() async throws {
        let fixture = try await DeliveriesFixture([.make("orders", ["com.example.orders"])])
        try await fixture.receive(1...2)
        _ = try await fixture.deliveries.register([.make("orders", ["com.example.other"]), .make("late")])
        #expect(try await fixture.count() == 2)
        try await fixture.receive(3...3)
        #expect(try await fixture.count("handler = 'orders'") == 2)
        #expect(try await fixture.count("handler = 'late'") == 1)
    }

    @Test("each process gets a greater token than the one before")
    func processTokens() async throws {
        let fixture = try await DeliveriesFixture()
        let first = try await fixture.deliveries.register([.make("orders")])
        let second = try await fixture.another().register([.make("orders")])
        #expect(0 < first && first < second)
    }

    // MARK: Claims

    @Test("a claim leases what is due, with its message")
    func claim() async throws {
        let fixture = try await DeliveriesFixture()
        let now = IncomingMessage.now()
        let batch = [
            IncomingMessage.make(1, data: #"{"a" : 1}"#, receivedAt: now),
            IncomingMessage.make(2, data: #"{"a":"\u0000"}"#, form: .raw, receivedAt: now + 1),
            IncomingMessage.make(3, data: nil, receivedAt: now + 2),
        ]
        _ = try await fixture.writer.commit(batch)
        let deliveries = try await fixture.claim()
        #expect(deliveries.map(\.number) == [1, 2, 3])
        let messages = deliveries.compactMap { delivery in
            if case .stored(let message) = delivery.content { message } else { nil }
        }
        let texts = messages.map { $0.data.map { String(decoding: $0, as: UTF8.self) } }
        #expect(texts == [#"{"a" : 1}"#, #"{"a":"\u0000"}"#, nil])
        #expect(messages.map(\.messageID) == ["m-1", "m-2", "m-3"])
        #expect(messages.first?.senderID == "1234567890")
        #expect(messages.first?.category == "com.example.orders")
        #expect(messages.first?.registrationToken.rawValue == "token-SECRET")
        #expect(messages.first?.receivedAtMicroseconds == now)
        #expect(deliveries.allSatisfy { $0.attempts == 0 && $0.crashes == 0 })
        #expect(try await fixture.claim(.make(owner: "b")).isEmpty)
    }

    @Test("workers that claim at the same time share the work and never get the same delivery")
    func concurrentClaims() async throws {
        let fixture = try await DeliveriesFixture()
        try await fixture.receive(1...500)
        let claimed = try await withThrowingTaskGroup(of: [UInt64].self) { group in
            for worker in 0..<4 {
                let store = fixture.another()
                group.addTask {
                    var numbers: [UInt64] = []
                    while true {
                        let deliveries = try await store.claim(.make(limit: 20, owner: "\(worker)"))
                        if deliveries.isEmpty { return numbers }
                        numbers += deliveries.map(\.number)
                    }
                }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        // A row that another claim held locked is skipped, so the last ones may wait for the next poll.
        let rest = try await fixture.claim(.make(limit: 500)).map(\.number)
        #expect((claimed + rest).sorted() == Array(1...500))
    }

    @Test("what was inserted under a lease belongs to its worker alone")
    func leasedInsert() async throws {
        let fixture = try await DeliveriesFixture([.make("orders"), .make("busy")])
        var offer = LeaseOffer(
            handlers: ["orders"],
            local: ["orders", "busy"],
            owner: "a",
            token: fixture.token,
            duration: .seconds(60)
        )
        _ = try await fixture.writer.commit([.make(1)], leasing: offer, isRetry: false)
        #expect(try await fixture.claim().isEmpty)
        #expect(try await fixture.claim(.make("busy")).count == 1)
        let settlement = Settlement(
            messageKey: IncomingMessage.make(1).messageKey,
            token: fixture.token,
            outcome: .done
        )
        #expect(try await fixture.deliveries.settle([settlement], of: "orders") == 1)
        #expect(try await fixture.count("handler = 'orders'") == 0)
        // A second commit of the same batch, after a lost reply, brings nothing back.
        offer.token += 1
        #expect(try await fixture.writer.commit([.make(1)], leasing: offer, isRetry: false).count == 1)
    }

    // MARK: Leases

    @Test("a lease that has ended passes on, and its old holder can neither settle nor extend")
    func takeOver() async throws {
        let fixture = try await DeliveriesFixture()
        try await fixture.receive(1...1)
        let old = try #require(try await fixture.claim().first)
        try await fixture.pass("61 s")
        let new = try #require(try await fixture.another().claim(.make(owner: "b")).first)
        #expect(new.lease.token > old.lease.token)
        #expect(new.crashes == 1)
        for outcome: Settlement.Outcome in [
            .done, .retry(after: .zero, failure), .dead(failure, isCounted: true), .release(after: .zero),
        ] {
            #expect(try await fixture.deliveries.settle([old.settled(outcome)], of: "orders") == 0)
        }
        let held = try await fixture.deliveries.extend([old.reference], of: "orders", by: .seconds(60))
        #expect(held.isEmpty)
        #expect(try await fixture.count("lease_owner = 'b'") == 1)
        #expect(try await fixture.deliveries.settle([new.settled(.done)], of: "orders") == 1)
        #expect(try await fixture.count() == 0)
    }

    @Test("what a worker held when it died passes on, also far behind where the others claim, and in a large table")
    func takeOverBehind() async throws {
        for ordering in HandlerOrdering.allCases {
            let fixture = try await DeliveriesFixture([.make("orders", ordering: ordering)])
            let isOrdered = ordering == .device
            try await fixture.store.script(
                """
                INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at, device_key)
                SELECT 'orders', md5(n::text)::uuid, now(), now() + CASE WHEN n <= 20 THEN '-1 h' ELSE '1 h' END::interval,
                    \(isOrdered ? "md5(n::text)::uuid" : "NULL")
                FROM generate_series(1, 20000) AS n;
                ANALYZE upstream.deliveries
                """
            )
            let request = ClaimRequest.make(limit: 20, owner: "b", ordered: isOrdered)
            let dying = fixture.another()
            try #require(await dying.claim(request).count == 20)
            // Moves the front to the present.
            try #require(await fixture.claim(request).isEmpty)
            try await fixture.store.script(
                "UPDATE upstream.deliveries SET lease_until = now() - interval '1 s' WHERE lease_owner IS NOT NULL"
            )
            var found = 0
            let end = ContinuousClock.now + .seconds(20)
            while found < 20, ContinuousClock.now < end {
                found += try await fixture.claim(request).count
                await Task.yield()
            }
            #expect(found == 20, "\(ordering)")
            await dying.close()
        }
    }

    @Test("a heartbeat keeps a lease")
    func heartbeat() async throws {
        let fixture = try await DeliveriesFixture()
        try await fixture.receive(1...1)
        let delivery = try #require(try await fixture.claim().first)
        try await fixture.pass("50 s")
        let held = try await fixture.deliveries.extend([delivery.reference], of: "orders", by: .seconds(60))
        #expect(held == [delivery.reference])
        try await fixture.pass("50 s")
        #expect(try await fixture.claim(.make(owner: "b")).isEmpty)
    }

    @Test("deliveries over which workers keep dying are claimed apart from the others")
    func suspects() async throws {
        let fixture = try await DeliveriesFixture()
        try await fixture.receive(1...2)
        for crashes in 0..<2 {
            #expect(try await fixture.claim().map(\.crashes) == [crashes, crashes])
            try await fixture.pass("61 s")
        }
        #expect(try await fixture.claim().isEmpty)
        let suspect = try await fixture.claim(.make(limit: 1, suspects: true))
        #expect(suspect.map(\.crashes) == [2])
        // An attempt that ends, however it ends, clears it.
        let delivery = try #require(suspect.first)
        _ = try await fixture.deliveries.settle([delivery.settled(.retry(after: .zero, failure))], of: "orders")
        #expect(try await fixture.claim().map(\.crashes) == [0])
    }

    @Test("where messages can't crash a worker, deliveries are claimed as others until many workers have died")
    func contained() async throws {
        let fixture = try await DeliveriesFixture()
        try await fixture.receive(1...3)
        var request = ClaimRequest.make()
        request.suspectFrom = 5
        // Each of these workers dies with what it claims, and one that starts looks at all that is due.
        func crashesOfNext() async throws -> [Int] {
            let worker = fixture.another()
            let found = try await worker.claim(request).map(\.crashes)
            await worker.close()
            try await fixture.pass("61 s")
            return found
        }
        for crashes in 0..<5 {
            #expect(try await crashesOfNext() == Array(repeating: crashes, count: 3))
        }
        #expect(try await crashesOfNext().isEmpty)
        // Several at once, none of which a worker has died over since; then each alone.
        request.isForSuspects = true
        request.mostCrashes = 5
        #expect(try await crashesOfNext() == [5, 5, 5])
        #expect(try await crashesOfNext().isEmpty)
        request.mostCrashes = .max
        request.limit = 1
        #expect(try await crashesOfNext() == [6])
    }

    // MARK: Settlements

    @Test(
        "a settlement reads its own rows, whatever the planner believed of the table when it planned",
        .timeLimit(.minutes(5))
    )
    func settlesByIndex() async throws {
        let fixture = try await DeliveriesFixture()
        let (claiming, settling) = (fixture.another("claiming"), fixture.another("settling"))
        // Planned for good while the table is as good as empty.
        for number in 1...8 as ClosedRange<UInt64> {
            try await fixture.receive(number...number)
            let batch = try await claiming.claim(.make()).map { $0.settled(.done) }
            #expect(try await settling.settle(batch, of: "orders") == 1)
        }
        try await fixture.receive(1_001...6_000)
        let claimed = try await claiming.claim(.make(limit: 5_000))
        await claiming.close()
        await fixture.writer.close()
        await fixture.deliveries.close()
        _ = try await fixture.rowsRead(afterEndOf: fixture.store.settings.applicationName)
        let before = try await fixture.rowsRead(afterEndOf: "claiming")
        let batch = claimed.prefix(10).map { $0.settled(.done) }
        #expect(try await settling.settle(batch, of: "orders") == 10)
        await settling.close()
        #expect(try await fixture.rowsRead(afterEndOf: "settling") - before < 100)
    }

    @Test("settlements of every kind in one batch")
    func settlements() async throws {
        let fixture = try await DeliveriesFixture()
        try await fixture.receive(1...4)
        let claimed = try await fixture.claim()
        let outcomes: [Settlement.Outcome] = [
            .done, .retry(after: .seconds(30), failure), .dead(failure, isCounted: true), .release(after: .zero),
        ]
        let batch = zip(claimed, outcomes).map { $0.settled($1) }
        #expect(try await fixture.deliveries.settle(batch, of: "orders") == 4)
        #expect(try await fixture.deliveries.settle(batch, of: "orders") == 0)
        #expect(try await fixture.claim().map { [$0.number, UInt64($0.attempts)] } == [[4, 0]])
        try await fixture.pass("31 s")
        #expect(try await fixture.claim().map { [$0.number, UInt64($0.attempts)] } == [[2, 1]])
        let error = "last_error = 'the endpoint answered 503'"
        #expect(try await fixture.count(error) == 1)
        let dead = """
            SELECT message_key::text || ' ' || attempts || ' ' || error_group FROM upstream.dead_letters WHERE \(error)
            """
        let key = claimed[2].messageKey.description
        #expect(try await fixture.store.text(dead) == "\(key) 1 status 503")
        let backlog = try await fixture.deliveries.backlog(["orders", "unknown"])
        #expect(backlog.map(\.depth) == [2, 0])
        #expect(backlog.map(\.deadLetters) == [1, 0])
        #expect((backlog.first?.oldestAge ?? .zero) > .zero)
    }

    @Test("a message that is gone is still claimed, so that its delivery can be set aside")
    func missing() async throws {
        let fixture = try await DeliveriesFixture()
        try await fixture.receive(1...1)
        try await fixture.store.script("TRUNCATE upstream.messages")
        let delivery = try #require(try await fixture.claim().first)
        guard case .missing = delivery.content else {
            Issue.record("the message is there")
            return
        }
    }

    // MARK: Pausing, order, notifications

    @Test("a paused handler's deliveries are not claimed")
    func paused() async throws {
        let fixture = try await DeliveriesFixture([.make("orders"), .make("other")])
        try await fixture.receive(1...1)
        try await fixture.deliveries.pause("orders", reason: "410 Gone")
        #expect(try await fixture.deliveries.controls(["orders", "other"]).map(\.isPaused) == [true, false])
        #expect(try await fixture.claim().isEmpty)
        #expect(try await fixture.claim(.make("other")).count == 1)
        try await fixture.store.script("UPDATE upstream.handlers SET paused_until = now() - interval '1 s'")
        #expect(try await fixture.deliveries.controls(["orders", "other"]).allSatisfy { !$0.isPaused })
        #expect(try await fixture.claim().count == 1)
    }

    @Test("by device: the oldest of each device, and nothing while one of the device is leased")
    func ordered() async throws {
        let fixture = try await DeliveriesFixture([.make("orders", ordering: .device)])
        _ = try await fixture.writer.commit(IncomingMessage.make(1...9, ofDevices: 3))
        let heads = try await fixture.claim(.make(ordered: true))
        #expect(heads.map(\.number).sorted() == [1, 2, 3])
        #expect(try await fixture.another().claim(.make(owner: "b", ordered: true)).isEmpty)
        // 1 is done, 2 has to be tried again: only the device of 1 goes on.
        let first = try #require(heads.first { $0.number == 1 })
        let second = try #require(heads.first { $0.number == 2 })
        let batchEnd = [first.settled(.done), second.settled(.retry(after: .seconds(30), failure))]
        _ = try await fixture.deliveries.settle(batchEnd, of: "orders")
        #expect(try await fixture.claim(.make(ordered: true)).map(\.number) == [4])
        #expect(try await fixture.claim(.make(ordered: true)).isEmpty)
        try await fixture.pass("31 s")
        #expect(try await fixture.claim(.make(limit: 1, ordered: true)).count == 1)
    }

    @Test(
        "a claim takes as many as fit into its bytes, and then the others; one that is larger gets through",
        arguments: [false, true]
    )
    func bytes(isOrdered: Bool) async throws {
        let fixture = try await DeliveriesFixture([.make("orders", ordering: isOrdered ? .device : .none)])
        let start = IncomingMessage.now() - 5_000_000
        // Compressed they are stored in a fraction of it.
        let sizes = [10_000, 90_000, 50_000, 1_000, 200_000, 50, 70_000]
        let batch = sizes.enumerated().map { number, size in
            let data = "\"" + String(repeating: "x", count: size) + "\""
            var message = IncomingMessage.make(UInt64(number), data: data, receivedAt: start + Int64(number))
            message.deviceKey = Digest128(high: UInt64(number), low: 5)
            return message
        }
        _ = try await fixture.writer.commit(batch)
        var request = ClaimRequest.make(ordered: isOrdered)
        request.bytes = 100_000
        var claims: [[UInt64]] = []
        repeat { claims.append(try await fixture.claim(request).map(\.number)) } while claims.last?.isEmpty == false
        #expect(claims.dropLast() == [[0, 1], [2, 3, 4], [5, 6]])
        // Where the walk has gone by, as after a lease that ended.
        try await fixture.pass("1 h")
        claims = []
        repeat {
            let claim = try await fixture.claim(request).map(\.number)
            if !claim.isEmpty { claims.append(claim) }
        } while claims.joined().count < sizes.count
        #expect(claims.joined().sorted() == Array(0...6) && claims.count >= 3, "\(claims)")
    }

    @Test("by device: claims go round the devices")
    func orderedRound() async throws {
        let fixture = try await DeliveriesFixture([.make("orders", ordering: .device)])
        _ = try await fixture.writer.commit(IncomingMessage.make(1...12, ofDevices: 4))
        var numbers: [UInt64] = []
        for _ in 0..<20 {
            let claimed = try await fixture.claim(.make(limit: 3, ordered: true))
            numbers += claimed.map(\.number)
            _ = try await fixture.deliveries.settle(claimed.map { $0.settled(.done) }, of: "orders")
        }
        #expect(numbers.sorted() == Array(1...12))
        for device: UInt64 in 0..<4 {
            let own = numbers.filter { $0 % 4 == device }
            #expect(own == own.sorted())
        }
    }

    @Test("deliveries for handlers elsewhere are announced, and others are not")
    func notifications() async throws {
        let fixture = try await DeliveriesFixture()
        let wakes = Tally()
        let listener = fixture.another()
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                do { try await listener.listen { wakes.increment() } } catch {}
            }
            let local = LeaseOffer(
                handlers: [],
                local: ["orders"],
                owner: "a",
                token: fixture.token,
                duration: .seconds(60)
            )
            let listening = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
            try await waitUntil { try await fixture.store.integer(listening) ?? 0 > 0 }
            for number: UInt64 in 1...5 {
                _ = try await fixture.writer.commit([.make(number)], leasing: local, isRetry: false)
            }
            try await fixture.receive(6...9)
            try await waitUntil { wakes.value > 0 }
            group.cancelAll()
        }
        #expect(wakes.value == 1)
    }
}

/// Counts from any thread.
final class Tally: Sendable {
    private let count = Mutex(0)
    var value: Int { count.withLock(\.self) }
    func increment() { count.withLock { $0 += 1 } }
}
