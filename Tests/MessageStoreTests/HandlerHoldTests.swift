import Dispatcher
import IntegrationSupport
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

extension DispatchService {
    /// Whether every circuit is closed.
    fileprivate var isHealthy: Bool { activity.allSatisfy { $0.circuit == .closed } }
}
