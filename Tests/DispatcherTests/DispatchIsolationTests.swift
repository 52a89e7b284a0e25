import IntegrationSupport
import Synchronization
import Telemetry
import Testing
import UpstreamKit
import Vocabulary

@testable import Dispatcher

/// Handlers beside one whose statements don't return, where nothing is polled and nothing is timed.
@Suite("Statements that wait", .timeLimit(.minutes(5)))
struct DispatchIsolationTests {
    /// A table with rows for each handler, in which some calls for the handler `stuck` don't return.
    private final class StuckDeliveries: QuietDeliveries {
        enum Call { case claim, settle }

        private struct State {
            var left: [String: Int]
            var settled: [String: Int] = [:]
            var last: UInt64 = 0
            var isReached = false
            var waiting: [CheckedContinuation<Void, Never>] = []
            var isOpen = false
        }

        private let call: Call
        private let state: Mutex<State>

        init(_ call: Call, _ left: [String: Int]) {
            self.call = call
            state = Mutex(State(left: left))
        }

        var isReached: Bool { state.withLock(\.isReached) }
        func settled(_ handler: String) -> Int { state.withLock { $0.settled[handler, default: 0] } }

        func open() {
            let waiting = state.withLock { state in
                state.isOpen = true
                defer { state.waiting = [] }
                return state.waiting
            }
            for waiter in waiting { waiter.resume() }
        }

        private func wait(_ call: Call, _ handler: String) async {
            guard call == self.call, handler == "stuck" else { return }
            await withCheckedContinuation { continuation in
                let isOpen = state.withLock { state in
                    state.isReached = true
                    if !state.isOpen { state.waiting.append(continuation) }
                    return state.isOpen
                }
                if isOpen { continuation.resume() }
            }
        }

        func claim(_ request: ClaimRequest) async throws(StoreError) -> [Delivery] {
            await wait(.claim, request.handler)
            return state.withLock { state in
                let left = state.left[request.handler, default: 0]
                let count = request.isForSuspects ? 0 : min(left, request.limit)
                state.left[request.handler] = left - count
                return (0..<count).map { _ in
                    state.last += 1
                    return request.delivery(state.last)
                }
            }
        }

        func settle(_ settlements: [Settlement], of handler: String) async throws(StoreError) -> Int {
            await wait(.settle, handler)
            return state.withLock { state in
                state.settled[handler, default: 0] += settlements.count
                return settlements.count
            }
        }

        func settle(_ blocks: [BlockSettlement], of handler: String) async throws(StoreError) -> Int { 0 }
    }

    private func run(_ store: StuckDeliveries, _ body: () async throws -> Void) async {
        let names = ["stuck", "free"]
        let handlers = names.map {
            HandlerRegistration($0, categories: .all, handler: ClosureHandler { _, _ in .done })
        }
        let service = DispatchService(
            store: store,
            registrations: handlers,
            senderIDs: [],
            settings: DispatchSettings(),
            metrics: Metrics(senders: [], categories: [], handlers: names, version: "test"),
            logger: .quiet,
            execute: { _, calls in CallEnd(calls.map { _ in .verdict(.done) }) }
        )
        await service.run {
            defer { store.open() }
            try await body()
        }
        #expect(store.settled("stuck") == 10_000)
    }

    @Test("A settlement that waits keeps no other handler from settling, however many calls it makes")
    func settlement() async throws {
        let store = StuckDeliveries(.settle, ["stuck": 10_000, "free": 20_000])
        await run(store) {
            try await waitUntil("the settlement waits") { store.isReached }
            try await waitUntil("all of the other are settled") { store.settled("free") == 20_000 }
            #expect(store.settled("stuck") == 0)
            store.open()
            try await waitUntil("and then those") { store.settled("stuck") == 10_000 }
        }
    }

    @Test("A claim that waits keeps no other handler from claiming")
    func claim() async throws {
        let store = StuckDeliveries(.claim, ["stuck": 10_000, "free": 20_000])
        await run(store) {
            try await waitUntil("the claim waits") { store.isReached }
            try await waitUntil("all of the other are settled") { store.settled("free") == 20_000 }
            store.open()
            try await waitUntil("and then those") { store.settled("stuck") == 10_000 }
        }
    }
}
