import Pipeline
import Testing
import UpstreamKit
import Vocabulary

/// A table of deliveries that nobody else works with: nothing is paused, lost or told.
protocol QuietDeliveries: DeliveryStore {}

extension QuietDeliveries {
    func listen(wake: @Sendable () -> Void) async throws(StoreError) {
        // Nobody else tells us anything.
        try? await Task.sleep(for: .seconds(3_600))
    }

    func register(_ handlers: [HandlerRegistration]) async throws(StoreError) -> Int64 { 1 }
    func paused(_ handlers: [String]) async throws(StoreError) -> Set<String> { [] }
    func extend(
        _ leases: [LeaseReference],
        of handler: String,
        by duration: Duration
    ) async throws(StoreError) -> Set<LeaseReference> { Set(leases) }
    func pause(_ handler: String, reason: String) async throws(StoreError) {}
    func unclaimed() async throws(StoreError) -> [String] { [] }
    func backlog(_ handlers: [String]) async throws(StoreError) -> [Backlog] { [] }
}

extension ClaimRequest {
    /// The delivery of a message of its own, leased as asked for.
    func delivery(_ number: UInt64) -> Delivery {
        let key = Digest128(high: 1, low: number)
        return Delivery(
            content: .stored(.sample(category: "c", data: nil, messageKey: MessageKey(key))),
            messageKey: key,
            lease: Lease(token: 1, deadline: .now + lease)
        )
    }
}

extension DispatchService {
    /// Runs while the body runs.
    func run(while body: () async throws -> Void) async {
        let task = Task { await run() }
        do {
            try await body()
        } catch {
            Issue.record(error)
        }
        beginShutdown()
        await task.value
    }
}

/// Waits until that holds; a failure of the test after 20 s.
func wait(_ name: Comment, until condition: () -> Bool) async throws {
    let end = ContinuousClock.now + .seconds(20)
    while !condition(), ContinuousClock.now < end { try await Task.sleep(for: .milliseconds(5)) }
    let holds = condition()
    #expect(holds, name)
}
