import Dispatcher
import IntegrationSupport
import MessageStore
import Testing
import UpstreamKit

@Suite("what workers ask for while a configuration is being rolled out")
struct HandlerWorkersTests {
    private let older = HandlerRegistration.make("orders", ["com.example.orders"])
    private let newer = HandlerRegistration.make("orders", ["com.example.orders", "com.example.new"])
    private let subscribed = """
        SELECT string_agg(category, ' ' ORDER BY category) FROM upstream.subscriptions WHERE handler = 'orders'
        """
    private let both = "com.example.new com.example.orders"

    private func offer(_ token: Int64) -> LeaseOffer {
        LeaseOffer(handlers: ["orders"], local: ["orders"], owner: "old", token: token, duration: .seconds(60))
    }

    /// Lets time pass for the workers' heartbeats.
    private func pass(_ interval: String, _ fixture: DeliveriesFixture, _ condition: String) async throws {
        try await fixture.store.script(
            """
            UPDATE upstream.handler_workers
            SET heartbeat_at = heartbeat_at - interval '\(interval)', alive_since = alive_since - interval '\(interval)'
            WHERE \(condition)
            """
        )
    }

    @Test("an older worker that restarts leaves what the newer one asks for")
    func restartOfTheOlder() async throws {
        let fixture = try await DeliveriesFixture([newer])
        let old = fixture.another()
        for _ in 0..<2 { _ = try await old.register([older]) }
        #expect(try await fixture.store.text(subscribed) == both)
        try await fixture.receive(1...3, category: "com.example.new")
        #expect(try await fixture.count("handler = 'orders'") == 3)
    }

    @Test("a category goes when nobody asks for it any more and somebody runs the handler, and not before")
    func withdrawal() async throws {
        let fixture = try await DeliveriesFixture([newer])
        let old = fixture.another()
        _ = try await old.register([older])
        await fixture.deliveries.close()
        #expect(try await fixture.store.text(subscribed) == "com.example.orders")
        // The last one's stay: what is received now waits for the handler.
        await old.close()
        #expect(try await fixture.store.text(subscribed) == "com.example.orders")
        try await fixture.receive(1...2)
        #expect(try await fixture.count() == 2)
        // Started again with another configuration.
        _ = try await old.register([.make("orders", ["com.example.new"])])
        #expect(try await fixture.store.text(subscribed) == "com.example.new")
    }

    @Test(
        "where the database's clock went back, what waits is due at once, and the dead seem alive no longer than others"
    )
    func clockSetBack() async throws {
        let fixture = try await DeliveriesFixture([older])
        let dead = fixture.another("dead")
        _ = try await dead.register([older])
        try await fixture.receive(1...6)
        #expect(try await dead.claim(.make(limit: 2, owner: "dead")).map(\.number) == [1, 2])
        // The third and the fourth wait for a retry; the fourth came before the clock was wrong.
        try await fixture.store.script(
            """
            UPDATE upstream.deliveries SET attempts = 1, last_error = 'x' WHERE right(message_key::text, 1) IN ('3', '4');
            UPDATE upstream.deliveries SET received_at = received_at + interval '2 h' WHERE right(message_key::text, 1) <> '4';
            UPDATE upstream.messages SET received_at = received_at + interval '2 h' WHERE right(message_key::text, 1) <> '4';
            UPDATE upstream.deliveries
            SET next_attempt_at = next_attempt_at + interval '2 h', lease_until = lease_until + interval '2 h';
            UPDATE upstream.handlers SET held_until = now() + interval '3 h'
            """
        )
        try await pass("-2 h", fixture, "true")
        #expect(try await fixture.claim().isEmpty)
        // What waits comes first, a part each time, and heartbeats last.
        for _ in 0..<2 { try await fixture.deliveries.keep(["orders"]) }
        #expect(try await fixture.claim().map(\.number) == [3, 5, 6])
        #expect(try await fixture.count("next_attempt_at > now() + interval '1 h'") == 1)
        #expect(try await fixture.count("lease_owner = 'dead' AND lease_until <= now() + interval '1 h'") == 2)
        let ahead = """
            SELECT count(*) FROM upstream.handler_workers JOIN upstream.handlers ON handler = name
            WHERE heartbeat_at > now() OR alive_since > now() OR held_until > now() + interval '1 h'
            """
        #expect(try await fixture.store.integer(ahead) == 0)
    }

    @Test("a worker that died asks until it has been silent for ten minutes, and somebody has watched it that long")
    func crash() async throws {
        let fixture = try await DeliveriesFixture([newer])
        let old = fixture.another()
        let token = try await old.register([older])
        try await pass("11 minutes", fixture, "token <> \(token)")
        try await pass("31 seconds", fixture, "token = \(token)")
        try await old.keep(["orders"])
        #expect(try await fixture.store.text(subscribed) == both, "the watcher has come only now")
        // An outage for everybody: the first who comes back does not take the others for dead.
        try await pass("1 hour", fixture, "true")
        try await old.keep(["orders"])
        #expect(try await fixture.store.text(subscribed) == both)
        // Ten minutes of heartbeats later.
        try await fixture.store.script(
            """
            UPDATE upstream.handler_workers
            SET heartbeat_at = now() - interval '35 seconds', alive_since = now() - interval '11 minutes' WHERE token = \(token)
            """
        )
        try await old.keep(["orders"])
        #expect(try await fixture.store.text(subscribed) == "com.example.orders")
        // It was not dead after all.
        try await fixture.deliveries.keep(["orders"])
        #expect(try await fixture.store.text(subscribed) == both)
    }

    @Test("a worker is leased no message of a category that only others ask for; they are told")
    func noLeaseForOthers() async throws {
        let fixture = try await DeliveriesFixture([newer])
        let old = fixture.another("old")
        let token = try await old.register([older])
        let offer = offer(token)
        let wakes = Tally()
        let listener = fixture.another()
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                do { try await listener.listen { wakes.increment() } } catch {}
            }
            let listening = """
                SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()
                """
            try await waitUntil { try await fixture.store.integer(listening) ?? 0 > 0 }
            _ = try await fixture.writer.commit([.make(1), .make(2)], leasing: offer, isRetry: false)
            #expect(try await fixture.count("lease_owner = 'old'") == 2)
            _ = try await fixture.writer.commit(
                [.make(3, category: "com.example.new"), .make(4)],
                leasing: offer,
                isRetry: false
            )
            try await waitUntil { wakes.value > 0 }
            group.cancelAll()
        }
        #expect(try await fixture.count("lease_owner = 'old'") == 3)
        #expect(try await fixture.claim().map(\.number) == [3])
        #expect(wakes.value == 1)
    }

    @Test("where one asks for all and one for some, a lease goes by what the holder asks for")
    func wildcard() async throws {
        let fixture = try await DeliveriesFixture([.make("orders")])
        let old = fixture.another("old")
        let token = try await old.register([older])
        let offer = offer(token)
        _ = try await fixture.writer.commit([.make(1), .make(2, category: "x")], leasing: offer, isRetry: false)
        #expect(try await fixture.count("lease_owner = 'old'") == 1)
        #expect(try await fixture.claim().map(\.number) == [2])
    }

    @Test("a handler goes by device as long as one worker wants it to")
    func ordering() async throws {
        let fixture = try await DeliveriesFixture([.make("orders")])
        let byDevice = "SELECT count(*) FROM upstream.subscriptions WHERE by_device"
        let other = fixture.another()
        _ = try await other.register([.make("orders", ["com.example.orders"], ordering: .device)])
        #expect(try await fixture.store.integer(byDevice) == 2)
        _ = try await fixture.another().register([.make("orders")])
        #expect(try await fixture.store.integer(byDevice) == 2)
        await other.close()
        #expect(try await fixture.store.integer(byDevice) == 0)
    }

    @Test("the list says who asks for what; the worker's role suffices for all of it")
    func list() async throws {
        let fixture = try await DeliveriesFixture([older])
        try await fixture.store.addRoles()
        let worker = PostgresDeliveryStore(try fixture.store.settings(as: "w"), worker: "host:7")
        _ = try await worker.register([newer])
        try await worker.keep(["orders"])
        try await pass("3 minutes", fixture, "worker <> 'host:7'")
        let states = HandlerStates(fixture.store.admin)
        var workers = try #require(try await states.list().first).workers
        #expect(workers.map(\.worker) == ["host:7", "a"])
        #expect(workers.map(\.isLive) == [true, false])
        #expect(workers.map { $0.categories.sorted().joined(separator: " ") } == [both, "com.example.orders"])
        await worker.close()
        workers = try #require(try await states.list().first).workers
        #expect(workers.map(\.worker) == ["a"])
    }
}
