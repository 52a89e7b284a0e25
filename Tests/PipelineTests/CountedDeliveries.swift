import Pipeline
import Synchronization
import UpstreamKit
import Vocabulary

/// A table that holds so many deliveries for each handler, and counts the claims.
final class CountedDeliveries: DeliveryStore {
    private struct State {
        var left: [String: Int]
        var claims: [String: Int] = [:]
        var last: UInt64 = 0
    }

    private let state: Mutex<State>

    init(_ left: [String: Int] = [:]) { state = Mutex(State(left: left)) }

    /// How often deliveries of this handler were asked for, of suspects as well.
    func claims(_ handler: String) -> Int { state.withLock { $0.claims[handler, default: 0] } }

    func claim(_ request: ClaimRequest) async throws(StoreError) -> [Delivery] {
        state.withLock { state in
            state.claims[request.handler, default: 0] += 1
            let left = state.left[request.handler, default: 0]
            let count = request.isForSuspects ? 0 : min(left, request.limit)
            state.left[request.handler] = left - count
            return (0..<count).map { _ in
                state.last += 1
                return Delivery(
                    content: .stored(.sample(category: "c", data: nil)),
                    messageKey: Digest128(high: 1, low: state.last),
                    lease: Lease(token: 1, deadline: .now + request.lease)
                )
            }
        }
    }

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
    func settle(_ settlements: [Settlement], of handler: String) async throws(StoreError) -> Int { settlements.count }
    func settle(_ blocks: [BlockSettlement], of handler: String) async throws(StoreError) -> Int { 0 }
    func pause(_ handler: String, reason: String) async throws(StoreError) {}
    func unclaimed() async throws(StoreError) -> [String] { [] }
    func backlog(_ handlers: [String]) async throws(StoreError) -> [Backlog] { [] }
}
