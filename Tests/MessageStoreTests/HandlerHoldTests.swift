import Dispatcher
import IntegrationSupport
import Synchronization
import Telemetry
import Testing
import UpstreamKit
import Vocabulary

@testable import MessageStore

/// A pause that a handler asks for itself (`Retry-After`), over two workers.
@Suite("pauses that handlers ask for", .timeLimit(.minutes(10)))
struct HandlerHoldTests {
    private let seen = (first: Seen(), second: Seen())
    private let busy = HandlerFailure(group: "webhook status 429", detail: "a body that no list shows")

    /// A handler that asks for an hour at its first call, and then takes every message.
    private func handlers(_ seen: Seen) -> [HandlerRegistration] {
        [
            .make("orders") { [busy] message, context in
                seen.add(message)
                guard message.messageKey.digest.low > 1 || context.attempt > 1 else {
                    throw HandlerVerdictError(.down(after: .seconds(3_600), hold: .seconds(3_600), busy))
                }
                return .done
            }
        ]
    }

    /// Runs two workers of the handler, one of which is asked for a pause.
    private func whileHeld(_ body: (DeliveriesFixture) async throws -> Void) async throws {
        let fixture = try await DeliveriesFixture(handlers(seen.first))
        let first = fixture.dispatcher(handlers(seen.first), owner: "a")
        let second = fixture.dispatcher(handlers(seen.second), owner: "b")
        try await fixture.run(first) {
            try await fixture.run(second) {
                try await fixture.receive(1...1)
                try await waitUntil { !first.isHealthy && !second.isHealthy }
                try await fixture.receive(2...10)
                try await body(fixture)
                // The first message was counted as an attempt and has a time of its own.
                try await waitUntil { (seen.first.all + seen.second.all).filter { $0 > 1 }.count == 9 }
            }
        }
    }

    @Test("Lists say at once until when and why; handlers resume ends it in every worker")
    func resume() async throws {
        try await whileHeld { fixture in
            let state = try #require(try await HandlerStates(fixture.store.admin).list().first)
            #expect(state.heldReason == "webhook status 429" && !state.isPaused)
            let rest = try #require(state.heldUntil).microseconds - IncomingMessage.now()
            #expect((3_000_000_000...3_610_000_000).contains(rest))
            // What a claim took that was on its way already is given back.
            try await waitUntil {
                let rows = try await WaitingDeliveries(fixture.store.admin).list(WaitingFilter(), limit: 50)
                let found = rows.map { ($0.messageKey.digest.low > 1, $0.heldUntil, $0.heldReason, $0.reason == .held) }
                #expect(found.count == 10 && found.allSatisfy { $0.1 == state.heldUntil && $0.2 == state.heldReason })
                return found.allSatisfy { !$0.0 || $0.3 }
            }
            #expect((seen.first.all + seen.second.all) == [1])
            #expect(try await HandlerStates(fixture.store.admin).resume("orders", by: .tester(nil)))
        }
    }

    @Test("deliveries retry-now ends it as well, also where all that waits is due", arguments: [true, false])
    func retryNow(_ byHandler: Bool) async throws {
        try await whileHeld { fixture in
            var filter = WaitingFilter()
            if byHandler { filter.handler = "orders" } else { filter.category = "com.example.orders" }
            let admin = fixture.store.admin
            // The others of the handler have nothing to do with it.
            var another = WaitingFilter()
            another.category = "com.example.other"
            _ = try await BulkAction(.waiting(.retryNow, another), total: 0, by: .tester(nil)).run(over: admin)
            #expect(try await HandlerStates(fixture.store.admin).list().first?.heldUntil != nil)
            _ = try await BulkAction(.waiting(.retryNow, filter), total: 0, by: .tester(nil)).run(over: admin)
            #expect(try await HandlerStates(fixture.store.admin).list().first?.heldUntil == nil)
        }
    }
}

/// A handler that is down in one worker, or in all.
@Suite("circuits over several workers", .timeLimit(.minutes(10)))
struct SharedCircuitTests {
    private let refused = HandlerFailure(group: "connection refused", detail: "nothing listens")

    /// A handler that can't be reached while `isDown`.
    private func handlers(_ seen: Seen, isDown: @escaping @Sendable () -> Bool) -> [HandlerRegistration] {
        var handler = HandlerRegistration.make("orders") { [refused] message, _ in
            guard isDown() else {
                seen.add(message)
                return .done
            }
            throw HandlerVerdictError(.unavailable(after: nil, refused))
        }
        handler.concurrency = 1
        return [handler]
    }

    /// Runs a worker until its circuit has opened, and then a second one, whose own failures would never open its.
    private func run(
        _ isDown: @escaping @Sendable (_ worker: String) -> Bool,
        _ body: (DeliveriesFixture, _ seen: Seen, _ first: DispatchService, _ second: DispatchService) async throws ->
            Void
    ) async throws {
        let seen = Seen()
        let fixture = try await DeliveriesFixture(handlers(seen, isDown: { false }))
        func worker(_ name: String, threshold: Int) -> DispatchService {
            let own = handlers(seen, isDown: { isDown(name) })
            return fixture.dispatcher(own, owner: name) {
                $0.breaker.threshold = threshold
                $0.breaker.pause = Backoff(initial: .seconds(3_600), maximum: .seconds(3_600))
            }
        }
        let (first, second) = (worker("a", threshold: 2), worker("b", threshold: 1_000_000))
        try await fixture.run(first) {
            try await fixture.receive(1...20)
            try await waitUntil { first.isOpen }
            try await fixture.run(second) { try await body(fixture, seen, first, second) }
        }
    }

    @Test("What has opened in one worker opens by one attempt in another; where it works again, both find out at once")
    func everywhere() async throws {
        let state = Mutex(true)
        let isDown: @Sendable (String) -> Bool = { _ in state.withLock(\.self) }
        try await run(isDown) { fixture, seen, first, second in
            try await waitUntil { second.isOpen }
            state.withLock { $0 = false }
            // As a worker writes that finds it working.
            let third = fixture.another("c")
            _ = try await third.register([.make("orders")])
            let change = try await third.changeCircuit("orders", isOpen: false)
            #expect(change?.isOpen == false)
            try await waitUntil { seen.all.count == 20 && first.isHealthy && second.isHealthy }
        }
    }

    @Test("A worker that alone can't reach its handler stops no other")
    func alone() async throws {
        let isDown: @Sendable (String) -> Bool = { $0 == "a" }
        try await run(isDown) { _, seen, first, second in
            try await waitUntil { seen.all.count == 20 && second.isHealthy }
            #expect(first.isOpen)
        }
    }

    @Test("A change is told with another name each time, and of an unknown handler there is none")
    func changes() async throws {
        let fixture = try await DeliveriesFixture()
        #expect(try await fixture.deliveries.controls(["orders"]).first?.circuit == nil)
        let opened = try #require(try await fixture.deliveries.changeCircuit("orders", isOpen: true))
        #expect(opened.isOpen)
        #expect(try await fixture.another().controls(["orders"]).first?.circuit == opened)
        let closed = try #require(try await fixture.deliveries.changeCircuit("orders", isOpen: false))
        #expect(!closed.isOpen && closed.id > opened.id)
        #expect(try await fixture.deliveries.controls(["orders"]).first?.circuit == closed)
        #expect(try await fixture.deliveries.changeCircuit("unknown", isOpen: true) == nil)
    }

    @Test("What a worker has said of a circuit ends with it, whether it stopped or died", arguments: [true, false])
    func gone(_ isInOrder: Bool) async throws {
        let fixture = try await DeliveriesFixture()
        let other = fixture.another("b")
        _ = try await other.register([.make("orders")])
        let opened = try #require(try await other.changeCircuit("orders", isOpen: true))
        #expect(try await fixture.deliveries.controls(["orders"]).first?.circuit == opened)
        if isInOrder {
            await other.close()
        } else {
            try await fixture.store.script(
                "UPDATE upstream.handler_workers SET heartbeat_at = now() - interval '3 minutes' WHERE worker = 'b'"
            )
        }
        #expect(try await fixture.deliveries.controls(["orders"]).first?.circuit == nil)
        guard !isInOrder else { return }
        // It was only away.
        try await other.keep(["orders"])
        #expect(try await fixture.deliveries.controls(["orders"]).first?.circuit == opened)
    }
}

extension DispatchService {
    /// Whether a circuit is open.
    fileprivate var isOpen: Bool { activity.contains { $0.circuit == .open } }

    /// Whether every circuit is closed.
    fileprivate var isHealthy: Bool { activity.allSatisfy { $0.circuit == .closed } }
}
