import Dispatcher
import Synchronization
import Vocabulary

/// A table that holds so many deliveries for each handler, and counts the claims.
final class CountedDeliveries: QuietDeliveries {
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
                return request.delivery(state.last)
            }
        }
    }

    func settle(_ settlements: [Settlement], of handler: String) async throws(StoreError) -> Int { settlements.count }
    func settle(_ blocks: [BlockSettlement], of handler: String) async throws(StoreError) -> Int { 0 }
}
