package import UpstreamKit
package import Vocabulary

/// The database side of the dispatcher: `handlers`, `subscriptions`, `deliveries` and `dead_letters`.
///
/// Calls may be concurrent. Times are durations by the database's clock: workers' clocks may differ.
package protocol DeliveryStore: Sendable {
    /// Registers the handlers and subscribes each to exactly its categories, from the next message on.
    ///
    /// Handlers that only other workers run stay unchanged.
    ///
    /// - Returns: The fencing token for the rows that this process inserts under its own lease; it is never 0.
    func register(_ handlers: [HandlerRegistration]) async throws(StoreError) -> Int64

    /// What operators and other workers want of these handlers; an entry for each registered one.
    func controls(_ handlers: [String]) async throws(StoreError) -> [HandlerControl]

    /// Takes this worker's share of a handler's limit over all workers, in parts; nil if it keeps the one it has.
    func share(_ request: ShareRequest) async throws(StoreError) -> Int?

    /// Records a pause that the handler asked for, for all workers and operators; waits for no lock.
    func hold(_ handler: String, _ hold: HandlerHold) async throws(StoreError)

    /// Records that the handler's circuit opened or closed in this worker, for all others; waits for no lock.
    ///
    /// - Returns: The change as ``controls(_:)`` has it while this worker runs; nil if it is not registered for the handler.
    func changeCircuit(_ handler: String, isOpen: Bool) async throws(StoreError) -> CircuitChange?

    /// Leases due deliveries, live ones before replayed ones, as they became due: at most `limit`, and one more of each
    /// kind than fit into its bytes.
    func claim(_ request: ClaimRequest) async throws(StoreError) -> [Delivery]

    /// Extends leases to `duration` from now, and returns those that are still ours.
    func extend(
        _ leases: [LeaseReference],
        of handler: String,
        by duration: Duration
    ) async throws(StoreError) -> Set<LeaseReference>

    /// Writes the outcomes of deliveries, each under its fencing token; ignores those whose lease another worker holds.
    ///
    /// Idempotent: may be repeated if the reply was lost.
    ///
    /// - Returns: How many were still ours.
    func settle(_ settlements: [Settlement], of handler: String) async throws(StoreError) -> Int

    /// Completes blocks, or unpacks them into rows under the same lease; see ``BlockSettlement``.
    ///
    /// Idempotent: may be repeated if the reply was lost.
    ///
    /// - Returns: How many of the finished deliveries were still ours.
    func settle(_ blocks: [BlockSettlement], of handler: String) async throws(StoreError) -> Int

    /// Stops every worker from claiming the handler's deliveries until it is resumed.
    func pause(_ handler: String, reason: String) async throws(StoreError)

    /// Handlers with subscriptions or deliveries that no worker has run for minutes.
    func unclaimed() async throws(StoreError) -> [String]

    /// Records that this worker is alive and runs these handlers.
    func keep(_ handlers: [String]) async throws(StoreError)

    /// The backlog of each handler, counted up to a limit.
    func backlog(_ handlers: [String]) async throws(StoreError) -> [Backlog]

    /// Calls `wake` for other workers' notifications; returns only if none arrive, as behind some poolers.
    func listen(wake: @Sendable () -> Void) async throws(StoreError)
}

/// What operators and other workers want of a handler.
package struct HandlerControl: Sendable, Equatable {
    package var handler: String
    package var isPaused = false
    /// The rest of a pause that it asked for, in any worker; nil without one.
    package var hold: Duration?
    /// Changes when an operator resumes it, which ends such a pause and closes the circuit breakers.
    package var resumption: Int64 = 0
    /// The latest change of its circuit, in a worker that still runs; nil without one.
    package var circuit: CircuitChange?

    package init(handler: String) { self.handler = handler }
}

package struct ClaimRequest: Sendable, Equatable {
    package var handler: String
    package var limit: Int
    /// About how many bytes they may take; the one that exceeds it is the last.
    package var bytes = DispatchSettings().waitingBytes
    /// How many of them may be replayed ones that give way to live ones.
    package var replayed = Int.max
    /// The same in bytes, beside those of the others.
    package var replayedBytes = DispatchSettings().waitingBytes
    /// How many replayed ones are to be claimed, beyond the limit, though live ones fill it.
    package var owed = 0
    /// How long the lease holds unless it is extended.
    package var lease: Duration
    /// The claiming worker's name in the table, for operators.
    package var owner: String
    /// Whether to claim deliveries that may have crashed workers, or only the others.
    package var isForSuspects: Bool
    /// The number of consecutive dead workers from which on a delivery may be the cause.
    package var suspectFrom = DispatchSettings().suspectFrom
    /// The most dead workers of such deliveries.
    package var mostCrashes = Int.max
    /// Whether to claim only deliveries without a counted attempt: what a probe of a failing handler takes first.
    package var isForUntried = false
    /// Whether only the oldest delivery of each device may be claimed, and none while another of the device is leased.
    package var isOrdered: Bool

    package init(
        handler: String,
        limit: Int,
        lease: Duration,
        owner: String,
        isForSuspects: Bool = false,
        isOrdered: Bool = false
    ) {
        (self.handler, self.limit, self.lease, self.owner) = (handler, limit, lease, owner)
        (self.isForSuspects, self.isOrdered) = (isForSuspects, isOrdered)
    }

    /// The request for what may be claimed besides these; nil at the limit in number or bytes.
    package func rest(after found: [Delivery]) -> ClaimRequest? {
        let (live, behind) = Self.sums(of: found)
        var rest = self
        rest.limit -= found.count
        rest.bytes -= live.bytes
        rest.replayedBytes -= behind.bytes
        rest.replayed = rest.replayedBytes > 0 ? max(0, replayed - behind.count) : 0
        rest.owed = max(0, owed - behind.count)
        return rest.limit > 0 && rest.bytes > 0 ? rest : nil
    }

    /// Whether a claim that found these has probably left more: at all, live ones, and replayed ones; nil if it could not
    /// look for these.
    package func left(after found: [Delivery]) -> (any: Bool, live: Bool, replayed: Bool?) {
        let (live, behind) = Self.sums(of: found)
        let isFull = live.count >= limit || live.bytes >= bytes
        let any = isFull || found.count >= limit
        // Live ones that did not fit were counted before it was known.
        let rest = live.bytes >= bytes ? 0 : limit - live.count
        let allowed = replayedBytes > 0 ? min(replayed, max(rest, owed)) : 0
        guard allowed > 0 else { return (any, isFull, nil) }
        return (any, isFull, behind.count >= allowed || behind.bytes >= replayedBytes)
    }

    /// Whether a claim that found these left nothing for want of number or bytes.
    package func fits(_ found: [Delivery]) -> Bool {
        let (live, behind) = Self.sums(of: found)
        return found.count < limit && live.bytes < bytes && behind.bytes < replayedBytes
    }

    private static func sums(
        of found: [Delivery]
    ) -> (live: (count: Int, bytes: Int), behind: (count: Int, bytes: Int)) {
        var (live, behind) = ((count: 0, bytes: 0), (count: 0, bytes: 0))
        for delivery in found {
            if delivery.givesWay {
                behind = (behind.count + 1, behind.bytes + delivery.content.size)
            } else {
                live = (live.count + 1, live.bytes + delivery.content.size)
            }
        }
        return (live, behind)
    }
}

package struct LeaseReference: Sendable, Hashable {
    package var messageKey: Digest128
    package var token: Int64

    package init(messageKey: Digest128, token: Int64) {
        (self.messageKey, self.token) = (messageKey, token)
    }
}

package struct Backlog: Sendable, Equatable {
    package var handler: String
    /// The rows in `deliveries`, counted up to ``depthLimit``.
    package var depth: Int
    /// The age of the oldest delivery; zero if there is none.
    package var oldestAge: Duration
    /// The rows in `dead_letters`, counted up to ``depthLimit``.
    package var deadLetters: Int

    /// The limit of counts, so that a large backlog costs no more than a small one.
    package static let depthLimit = 100_000

    package init(handler: String, depth: Int, oldestAge: Duration, deadLetters: Int) {
        (self.handler, self.depth, self.oldestAge, self.deadLetters) = (handler, depth, oldestAge, deadLetters)
    }
}
