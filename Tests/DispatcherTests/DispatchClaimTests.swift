import IntegrationSupport
import Synchronization
import Telemetry
import Testing
import UpstreamKit
import Vocabulary

@testable import Dispatcher

/// Who claims, and when, where the table is polled once an hour only.
@Suite("Claims of handlers, with a rate and without", .timeLimit(.minutes(5)))
struct DispatchClaimTests {
    private let done = Seen()

    /// How many messages were handled.
    private final class Seen: Sendable {
        private let state = Mutex(0)
        var count: Int { state.withLock { $0 } }
        func add() { state.withLock { $0 += 1 } }
    }

    private func registration(_ name: String, _ categories: CategorySet, rate: HandlerRate?) -> HandlerRegistration {
        var registration = HandlerRegistration(name, categories: categories, handler: ClosureHandler { _, _ in .done })
        registration.rate = rate
        return registration
    }

    /// Runs a dispatcher while the body runs.
    private func run(
        _ store: CountedDeliveries,
        _ handlers: [HandlerRegistration],
        _ body: (DispatchService) async throws -> Void
    ) async throws {
        var settings = DispatchSettings()
        settings.poll = .seconds(3_600)
        let service = DispatchService(
            store: store,
            registrations: handlers,
            senderIDs: [],
            settings: settings,
            metrics: Metrics(senders: [], categories: [], handlers: handlers.map(\.name), version: "test"),
            logger: .quiet,
            execute: { [done] _, calls in
                for _ in calls { done.add() }
                return CallEnd(calls.map { _ in .verdict(.done) })
            }
        )
        await service.run { try await body(service) }
    }

    @Test("A backlog is claimed as the rate allows, without a poll")
    func backlog() async throws {
        // 50 at once, and 70 more as they are allowed.
        let store = CountedDeliveries(["limited": 120])
        try await run(store, [registration("limited", .all, rate: HandlerRate(50))]) { _ in
            try await waitUntil("all are handled") { done.count == 120 }
        }
    }

    @Test("A backlog without a rate is claimed to its end, without a poll")
    func withoutRate() async throws {
        let store = CountedDeliveries(["free": 5_000])
        try await run(store, [registration("free", .all, rate: nil)]) { _ in
            try await waitUntil("all are handled") { done.count == 5_000 }
        }
    }

    @Test("As many handlers as there are claim, whatever share of the memory each has", arguments: 1...32)
    func shares(_ count: Int) async throws {
        let names = (1...count).map { "h\($0)" }
        let store = CountedDeliveries(Dictionary(uniqueKeysWithValues: names.map { ($0, 10) }))
        try await run(store, names.map { registration($0, .all, rate: nil) }) { _ in
            try await waitUntil("all are handled") { done.count == 10 * count }
        }
    }

    @Test("A handler with a filter is offered nothing, and no commit makes it claim: a notification does")
    func filtered() async throws {
        let store = CountedDeliveries()
        var handlers = [
            registration("free", ["com.*"], rate: nil), registration("filtered", ["com.example.*"], rate: nil),
            registration("others", ["com.exampl.*", "org.*"], rate: nil),
            registration("limited", ["com.example.*"], rate: HandlerRate(1, per: .seconds(3_600))),
        ]
        handlers[1].filter = "[]"
        try await run(store, handlers) { service in
            try await waitUntil("the first round has ended") {
                handlers.allSatisfy { store.claims($0.name) == 2 }
            }
            let offer = service.intake.offer(for: 1, bytes: 0)
            #expect(offer.handlers == ["free", "others"] && offer.local == handlers.map(\.name))
            let name = Array("com.example.a".utf8)
            var message = IncomingMessage(kind: .upstream, bytes: name, stanza: ByteSpan(start: 0, count: 1))
            message.category = ByteSpan(start: 0, count: name.count)
            service.intake.committed(offer, messages: [message], outcomes: [.stored])
            try await waitUntil("another of its prefix claims again") { store.claims("limited") == 4 }
            #expect(["free", "filtered", "others"].allSatisfy { store.claims($0) == 2 })
        }
    }

    @Test("A commit for a handler with a rate makes no other handler claim, and its own claim is not forgotten")
    func commits() async throws {
        let store = CountedDeliveries()
        let handlers = [
            registration("free", ["other"], rate: nil),
            registration("limited", .all, rate: HandlerRate(1, per: .seconds(3_600))),
        ]
        try await run(store, handlers) { service in
            // Each claims, and asks for suspects; the handlers in their order.
            try await waitUntil("the first round has ended") { store.claims("limited") == 2 }
            let message = messages(1...1)
            for round in 2...4 {
                let offer = service.intake.offer(for: 1, bytes: 0)
                service.intake.committed(offer, messages: message, outcomes: [.stored])
                try await waitUntil("it claims again") { store.claims("limited") == 2 * round }
            }
            #expect(store.claims("free") == 2)
        }
    }
}
