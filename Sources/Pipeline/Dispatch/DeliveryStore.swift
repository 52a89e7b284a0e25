package import UpstreamKit
package import Vocabulary

/// The database side of the dispatcher: the tables `handlers`, `subscriptions`, `deliveries` and `dead_letters`.
///
/// Calls may be concurrent. Times are durations by the database's clock, so workers agree about leases and retries even if their
/// clocks differ.
package protocol DeliveryStore: Sendable {
    /// Registers the handlers and subscribes each to exactly its categories, from the next message on.
    ///
    /// Handlers that only other workers run stay unchanged.
    ///
    /// - Throws: ``StoreError``
    /// - Returns: The fencing token for the rows that this process inserts under its own lease; it is never 0.
    func register(_ handlers: [HandlerRegistration]) async throws(StoreError) -> Int64

    /// What operators and other workers want of these handlers.
    ///
    /// - Throws: ``StoreError``
    /// - Returns: An entry for each that is registered.
    func controls(_ handlers: [String]) async throws(StoreError) -> [HandlerControl]

    /// Tells every worker, and operators, that the handler asked for a pause; waits for no lock.
    ///
    /// - Throws: ``StoreError``
    func hold(_ handler: String, _ hold: HandlerHold) async throws(StoreError)

    /// Leases deliveries that are due and loads their messages.
    ///
    /// - Throws: ``StoreError``
    /// - Returns: At most `limit` deliveries, in the order they became due: no more than fit into `bytes`, and one.
    func claim(_ request: ClaimRequest) async throws(StoreError) -> [Delivery]

    /// Extends leases to `duration` from now, and returns those that are still ours.
    ///
    /// - Throws: ``StoreError``
    func extend(
        _ leases: [LeaseReference],
        of handler: String,
        by duration: Duration
    ) async throws(StoreError) -> Set<LeaseReference>

    /// Writes the outcomes of deliveries, each under its fencing token; ignores those whose lease another worker holds.
    ///
    /// Idempotent: may be repeated when the reply was lost.
    ///
    /// - Throws: ``StoreError``
    /// - Returns: How many were still ours.
    func settle(_ settlements: [Settlement], of handler: String) async throws(StoreError) -> Int

    /// Completes blocks, or unpacks them into rows under the same lease; see ``BlockSettlement``.
    ///
    /// Idempotent: may be repeated when the reply was lost.
    ///
    /// - Throws: ``StoreError``
    /// - Returns: How many of the deliveries that are done were still ours.
    func settle(_ blocks: [BlockSettlement], of handler: String) async throws(StoreError) -> Int

    /// Stops every worker from claiming the handler's deliveries until it is resumed.
    ///
    /// - Throws: ``StoreError``
    func pause(_ handler: String, reason: String) async throws(StoreError)

    /// Handlers with subscriptions or deliveries that no worker has run for minutes.
    ///
    /// - Throws: ``StoreError``
    func unclaimed() async throws(StoreError) -> [String]

    /// The backlog of each handler, counted up to a limit; also records that this worker runs them.
    ///
    /// - Throws: ``StoreError``
    func backlog(_ handlers: [String]) async throws(StoreError) -> [Backlog]

    /// Listens for other workers' notifications, and calls `wake` for each.
    ///
    /// Returns only if notifications do not arrive, as behind a pooler in transaction mode.
    ///
    /// - Throws: ``StoreError``
    func listen(wake: @Sendable () -> Void) async throws(StoreError)
}

/// What operators and other workers want of a handler.
package struct HandlerControl: Sendable, Equatable {
    /// The handler.
    package var handler: String
    /// Whether it is paused.
    package var isPaused = false
    /// How much is left of a pause that it asked for itself, of any worker; nil without one.
    package var hold: Duration?
    /// Changes when an operator resumes it, which ends such a pause and closes the circuit breakers.
    package var resumption: Int64 = 0

    package init(handler: String) { self.handler = handler }
}

/// What to claim.
package struct ClaimRequest: Sendable, Equatable {
    /// For which handler.
    package var handler: String
    /// How many at most.
    package var limit: Int
    /// How many bytes they may take, about; the one that goes over it is the last.
    package var bytes = DispatchSettings().waitingBytes
    /// How long the lease holds unless it is extended.
    package var lease: Duration
    /// The claiming worker's name in the table, for operators.
    package var owner: String
    /// Whether to claim deliveries that may have crashed workers, or only the others.
    package var isForSuspects: Bool
    /// From how many dead workers in a row on a delivery may be the cause.
    package var suspectFrom = DispatchSettings().suspectFrom
    /// Of such deliveries, only those with no more dead workers than this.
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
        self.handler = handler
        self.limit = limit
        self.lease = lease
        self.owner = owner
        self.isForSuspects = isForSuspects
        self.isOrdered = isOrdered
    }

    /// What may be claimed beside these; nil where they are as many, or as large, as may be.
    package func rest(after found: [Delivery]) -> ClaimRequest? {
        var rest = self
        rest.limit -= found.count
        rest.bytes -= found.reduce(0) { $0 + $1.content.size }
        return rest.limit > 0 && rest.bytes > 0 ? rest : nil
    }
}

/// Identifies a claim.
package struct LeaseReference: Sendable, Hashable {
    /// The message's key.
    package var messageKey: Digest128
    /// The fencing token.
    package var token: Int64

    package init(messageKey: Digest128, token: Int64) {
        self.messageKey = messageKey
        self.token = token
    }
}

/// One handler's backlog.
package struct Backlog: Sendable, Equatable {
    /// The handler.
    package var handler: String
    /// The rows in `deliveries`, counted up to ``depthLimit``.
    package var depth: Int
    /// The age of the oldest delivery; zero without one.
    package var oldestAge: Duration
    /// The rows in `dead_letters`, counted up to ``depthLimit``.
    package var deadLetters: Int

    /// Where counting stops, so that a large backlog costs no more than a small one.
    package static let depthLimit = 100_000

    package init(handler: String, depth: Int, oldestAge: Duration, deadLetters: Int) {
        self.handler = handler
        self.depth = depth
        self.oldestAge = oldestAge
        self.deadLetters = deadLetters
    }
}
