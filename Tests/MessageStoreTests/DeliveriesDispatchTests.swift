import Dispatcher
import IntegrationSupport
import MessageStore
import Synchronization
import Testing
import UpstreamKit
import Vocabulary

@Suite("dispatch over PostgreSQL")
struct DeliveriesDispatchTests {
    @Test("what waits in the table is handled, and what is handed over too")
    func both() async throws {
        let seen = Seen()
        let handlers = [HandlerRegistration.make("orders", seen: seen)]
        let fixture = try await DeliveriesFixture(handlers)
        try await fixture.receive(1...300)
        let service = fixture.dispatcher(handlers)
        try await fixture.run(service) {
            try await waitUntil { seen.all.count == 300 }
            // Handed over: leased from the start, and no claim sees it.
            try await fixture.receive(301...600, through: service.intake)
            try await waitUntil { seen.all.count == 600 }
        }
        #expect(seen.all.sorted() == Array(1...600))
        #expect(try await fixture.count() == 0)
    }

    @Test("two workers share the work, and each delivery runs once")
    func share() async throws {
        let (first, second) = (Seen(), Seen())
        // Each waits for the other's first delivery, so that none is done before both are at work.
        func handlers(_ seen: Seen, _ other: Seen) -> [HandlerRegistration] {
            [
                .make("orders") { message, _ in
                    seen.add(message)
                    try await waitUntil { !other.all.isEmpty }
                    return .done
                }
            ]
        }
        let fixture = try await DeliveriesFixture()
        try await fixture.receive(1...1000)
        let a = fixture.dispatcher(handlers(first, second), owner: "a") { $0.capacity = 50 }
        let b = fixture.dispatcher(handlers(second, first), owner: "b") { $0.capacity = 50 }
        try await fixture.run(a) {
            try await fixture.run(b) {
                try await waitUntil { try await fixture.count() == 0 }
            }
        }
        #expect((first.all + second.all).sorted() == Array(1...1000))
        #expect(!first.all.isEmpty && !second.all.isEmpty)
    }

    @Test("a handler that hangs, and one that fails, delay no other")
    func isolation() async throws {
        let seen = Seen()
        let handlers: [HandlerRegistration] = [
            .make("hangs") { _, _ in
                try await Task.sleep(for: .seconds(3600))
                return .done
            },
            .make("fails") { _, _ in .retry(after: .seconds(60), reason: "no") },
            .make("works") { message, _ in
                seen.add(message)
                return .done
            },
        ]
        let fixture = try await DeliveriesFixture(handlers)
        let service = fixture.dispatcher(handlers)
        try await fixture.run(service) {
            for batch: UInt64 in 0..<5 {
                try await fixture.receive(batch * 100 + 1...batch * 100 + 100, through: service.intake)
            }
            try await waitUntil { seen.all.count == 500 }
        }
        // Nothing is lost, and the shutdown charged nobody.
        #expect(try await fixture.count("handler = 'hangs' AND lease_owner IS NULL AND attempts = 0") == 500)
        #expect(try await fixture.count("handler = 'fails' AND lease_owner IS NULL") == 500)
        #expect(try await fixture.count("handler = 'works'") == 0)
    }

    @Test("a shutdown hands running and waiting deliveries back without counting an attempt")
    func shutdown() async throws {
        let started = Seen()
        let handlers = [
            HandlerRegistration.make("orders") { message, _ in
                started.add(message)
                try await Task.sleep(for: .seconds(3600))
                return .done
            }
        ]
        let fixture = try await DeliveriesFixture(handlers)
        try await fixture.receive(1...20)
        try await fixture.run(fixture.dispatcher(handlers)) {
            try await waitUntil { started.all.count == 4 }
            #expect(try await fixture.count("lease_owner = 'a'") == 20)
        }
        #expect(try await fixture.count("lease_owner IS NULL AND attempts = 0 AND crashes = 0") == 20)
    }

    @Test("a handler that ignores its cancellation is left behind with its lease given back")
    func abandoned() async throws {
        let gate = Gate()
        let handlers = [
            HandlerRegistration.make("orders") { _, _ in
                await gate.wait()
                return .done
            }
        ]
        let fixture = try await DeliveriesFixture(handlers)
        try await fixture.receive(1...1)
        let service = fixture.dispatcher(handlers)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await service.run() }
            try await waitUntil { gate.isReached }
            service.beginShutdown()
            try await waitUntil { try await fixture.count("lease_owner IS NULL AND attempts = 0") == 1 }
            gate.open()
            try await group.waitForAll()
        }
        // Its late answer changes nothing.
        #expect(try await fixture.count("lease_owner IS NULL") == 1)
    }

    @Test("an attempt that outlives its lease can't complete what another worker took over")
    func outlived() async throws {
        let gate = Gate()
        let handlers = [
            HandlerRegistration.make("orders") { _, _ in
                await gate.wait()
                return .done
            }
        ]
        let fixture = try await DeliveriesFixture(handlers)
        try await fixture.receive(1...1)
        // Polls too seldom to take it back itself.
        try await fixture.run(fixture.dispatcher(handlers) { $0.poll = .seconds(3600) }) {
            try await waitUntil { gate.isReached }
            // As after SIGSTOP: no heartbeat, and time has passed for everybody else.
            try await fixture.pass("61 s")
            let taken = try await fixture.another().claim(.make(owner: "b"))
            #expect(taken.map(\.number) == [1])
            gate.open()
        }
        #expect(try await fixture.count("lease_owner = 'b'") == 1)
    }

    @Test("a worker that dies at any step leaves every delivery to another")
    func killed() async throws {
        // Its steps as the table sees them: inserted under its lease, claimed, run, and the settlement never sent.
        let fixture = try await DeliveriesFixture()
        let offer = LeaseOffer(
            handlers: ["orders"],
            local: ["orders"],
            owner: "dead",
            token: try await fixture.another("dead").register([.make("orders")]),
            duration: .seconds(60)
        )
        _ = try await fixture.writer.commit([.make(1), .make(2)], leasing: offer, isRetry: false)
        try await fixture.receive(3...4)
        #expect(try await fixture.claim(.make(owner: "dead")).count == 2)
        try await fixture.pass("61 s")
        let seen = Seen()
        let handlers = [HandlerRegistration.make("orders", seen: seen)]
        try await fixture.run(fixture.dispatcher(handlers)) {
            try await waitUntil { try await fixture.count() == 0 }
        }
        #expect(seen.all.sorted() == [1, 2, 3, 4])
    }

    @Test("what brings workers down is set aside, and its neighbours are not")
    func crashLoop() async throws {
        let fixture = try await DeliveriesFixture()
        try await fixture.receive(1...20)
        // Twice a worker dies with all of them in its hands; then message 7 takes three more down, alone.
        for _ in 0..<2 {
            #expect(try await fixture.claim(.make(owner: "dead")).count == 20)
            try await fixture.pass("61 s")
        }
        try await fixture.store.script(
            "UPDATE upstream.deliveries SET crashes = 4 WHERE message_key = '\(IncomingMessage.make(7).messageKey)'"
        )
        let seen = Seen()
        let running = Mutex(0)
        let most = Mutex(0)
        let handlers = [
            HandlerRegistration.make("orders") { message, _ in
                let count = running.withLock {
                    $0 += 1
                    return $0
                }
                most.withLock { $0 = max($0, count) }
                seen.add(message)
                running.withLock { $0 -= 1 }
                return .done
            }
        ]
        try await fixture.run(fixture.dispatcher(handlers)) {
            try await waitUntil { try await fixture.count() == 0 }
        }
        #expect(seen.all.sorted() == (1...20).filter { $0 != 7 })
        #expect(most.withLock { $0 } == 1)
        let dead = "SELECT count(*) FROM upstream.dead_letters WHERE error_group = 'worker crashed' AND crashes = 5"
        #expect(try await fixture.store.integer(dead) == 1)
    }

    @Test("by device: one at a time for each token, in arrival order, also when attempts fail")
    func ordered() async throws {
        let seen = Seen()
        let running = Mutex<Set<DeviceKey>>([])
        let overlaps = Mutex(0)
        let failed = Mutex<Set<UInt64>>([])
        var handler = HandlerRegistration.make("orders", ordering: .device) { message, _ in
            let number = message.messageKey.digest.low
            let isAlone = running.withLock { $0.insert(message.deviceKey).inserted }
            if !isAlone { overlaps.withLock { $0 += 1 } }
            await Task.yield()
            running.withLock { _ = $0.remove(message.deviceKey) }
            if number.isMultiple(of: 7), failed.withLock({ $0.insert(number).inserted }) {
                return .retry(after: .zero, reason: "once")
            }
            seen.add(message)
            return .done
        }
        handler.retry = RetryPolicy(maxAttempts: 5, initial: .zero, maximum: .zero)
        let fixture = try await DeliveriesFixture([handler])
        let batch = IncomingMessage.make(1...60, ofDevices: 5)
        let (a, b) = (fixture.dispatcher([handler], owner: "a"), fixture.dispatcher([handler], owner: "b"))
        try await fixture.run(a) {
            try await fixture.run(b) {
                for part in stride(from: 0, to: 60, by: 10) {
                    let messages = Array(batch[part..<part + 10])
                    let offer = a.intake.offer(for: 10, bytes: 0)
                    let outcomes = try await fixture.writer.commit(messages, leasing: offer, isRetry: false)
                    a.intake.committed(offer, messages: messages, outcomes: outcomes)
                }
                try await waitUntil { try await fixture.count() == 0 }
            }
        }
        #expect(overlaps.withLock { $0 } == 0)
        for device: UInt64 in 0..<5 {
            let own = seen.all.filter { $0 % 5 == device }
            #expect(own == (1...60).filter { $0 % 5 == device })
        }
    }

    @Test("retries come until the attempts are used up, then the delivery is set aside")
    func retries() async throws {
        let attempts = Mutex<[Int]>([])
        var handler = HandlerRegistration.make("orders") { _, context in
            attempts.withLock { $0.append(context.attempt) }
            throw CancellationError()
        }
        handler.retry = RetryPolicy(maxAttempts: 3, initial: .zero, maximum: .zero)
        let fixture = try await DeliveriesFixture([handler])
        try await fixture.receive(1...1)
        try await fixture.run(fixture.dispatcher([handler])) {
            try await waitUntil { try await fixture.store.integer("SELECT count(*) FROM upstream.dead_letters") == 1 }
        }
        #expect(attempts.withLock { $0 } == [1, 2, 3])
        #expect(try await fixture.store.integer("SELECT attempts FROM upstream.dead_letters") == 3)
        #expect(try await fixture.count() == 0)
    }

    @Test("a pause in the database stops the handler, and a resume starts it again")
    func pause() async throws {
        let seen = Seen()
        let handlers = [HandlerRegistration.make("orders", seen: seen)]
        let fixture = try await DeliveriesFixture(handlers)
        try await fixture.deliveries.pause("orders", reason: "maintenance")
        let service = fixture.dispatcher(handlers)
        try await fixture.run(service) {
            let polls = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%paused_until%'"
            try await waitUntil { try await fixture.store.integer(polls) ?? 0 > 0 }
            try await fixture.receive(1...10)
            try await fixture.receive(11...20, through: service.intake)
            // Two polls later than what waits.
            for _ in 0..<2 {
                let now = try #require(try await fixture.store.text("SELECT clock_timestamp()::text"))
                try await fixture.store.waitUntil(
                    """
                    SELECT count(*) > 0 FROM pg_stat_activity
                    WHERE query LIKE '%paused_until%' AND pid <> pg_backend_pid() AND query_start > '\(now)'
                    """
                )
            }
            #expect(seen.all.filter { $0 <= 10 }.isEmpty)
            try await fixture.store.script("UPDATE upstream.handlers SET paused = false")
            try await waitUntil { seen.all.count == 20 }
        }
    }

    /// With the poll out of the way: waiting for one between any two, a few kills would hold messages up for minutes.
    @Test("deliveries over which workers keep dying follow one after the other, without a poll in between")
    func suspects() async throws {
        let seen = Seen()
        let handler = HandlerRegistration.make("orders", seen: seen)
        let fixture = try await DeliveriesFixture([handler])
        try await fixture.receive(1...20)
        try await fixture.store.script("UPDATE upstream.deliveries SET crashes = 2")
        try await fixture.run(fixture.dispatcher([handler]) { $0.poll = .seconds(3600) }) {
            try await waitUntil { try await fixture.count() == 0 }
        }
        #expect(seen.all.count == 20)
    }

    @Test("an attempt beyond the handler's time is cancelled and counted")
    func timeout() async throws {
        let attempts = Mutex(0)
        var handler = HandlerRegistration.make("orders") { _, _ in
            if attempts.withLock({
                $0 += 1
                return $0
            }) == 1 {
                try await Task.sleep(for: .seconds(3600))
            }
            return .done
        }
        handler.timeout = .milliseconds(50)
        handler.retry = RetryPolicy(maxAttempts: 3, initial: .zero, maximum: .zero)
        let fixture = try await DeliveriesFixture([handler])
        try await fixture.receive(1...1)
        try await fixture.run(fixture.dispatcher([handler])) {
            try await waitUntil { try await fixture.count() == 0 }
        }
        #expect(attempts.withLock { $0 } == 2)
    }
}
