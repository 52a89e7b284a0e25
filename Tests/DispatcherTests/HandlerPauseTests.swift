import Dispatcher
import IntegrationSupport
import Synchronization
import Telemetry
import Testing
import UpstreamKit
import Vocabulary

/// A table with one delivery, which keeps why the handler was paused.
private final class PausedDeliveries: QuietDeliveries {
    private let left = Atomic(true)
    private let noted = Mutex<String?>(nil)

    var reason: String? { noted.withLock { $0 } }

    func pause(_ handler: String, reason: String) async throws(StoreError) { noted.withLock { $0 = reason } }

    func claim(_ request: ClaimRequest) async throws(StoreError) -> [Delivery] {
        left.exchange(false, ordering: .relaxed) ? [request.delivery(1)] : []
    }

    func settle(_ settlements: [Settlement], of handler: String) async throws(StoreError) -> Int { settlements.count }
    func settle(_ blocks: [BlockSettlement], of handler: String) async throws(StoreError) -> Int { 0 }
}

@Suite("A handler that asks to be paused", .timeLimit(.minutes(1)))
struct HandlerPauseTests {
    @Test(
        "it is paused without its own words, which may quote the message: everybody who sees handlers reads the reason"
    )
    func words() async throws {
        let store = PausedDeliveries()
        let handler = ClosureHandler { _, _ in
            let failure = HandlerFailure(group: "webhook status 410", detail: "the endpoint answered 410: a payload")
            throw HandlerVerdictError(.pause(failure))
        }
        let service = DispatchService.forOne(
            handler,
            of: store,
            poll: .milliseconds(20),
            metrics: Metrics(senders: [], categories: [], handlers: ["now"], version: "test")
        ) { _ in }
        await service.run { try await waitUntil("it is paused") { store.reason != nil } }
        #expect(store.reason == "webhook status 410")
    }
}
