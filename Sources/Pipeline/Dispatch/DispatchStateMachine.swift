import UpstreamKit

/// One handler's deliveries in this worker: which wait, which run, and which leases have to be kept.
///
/// - *active* takes deliveries and runs them → `setPaused(true)` *paused*, `stop()` *stopping*.
/// - *paused* holds no waiting delivery; what runs goes on → `setPaused(false)` *active*, `stop()` *stopping*.
/// - *stopping* runs what is running to its end and takes nothing more; final.
///
/// A delivery is waiting, running, or gone: ``finished(_:_:now:random:)``, and every method that returns settlements,
/// end the machine's part in it, and whoever calls must see that the settlements reach the table.
package struct DispatchStateMachine: Sendable {
    /// What the handler's deliveries may do.
    enum Mode: Sendable {
        case active
        case paused
        case stopping
    }

    /// Names one attempt; never reused, as the same delivery may come back while an attempt at it still hangs.
    package typealias RunID = UInt64

    /// An attempt under way.
    struct Run: Sendable {
        var reference: LeaseReference
        var deadline: ContinuousClock.Instant
        var leaseEnd: ContinuousClock.Instant
        var attempts: Int
        var isUntried: Bool
        var isProbe: Bool
        var isSuspect: Bool
        var isTimedOut = false
        var isLost = false
    }

    let settings: LaneSettings
    var mode = Mode.active
    var breaker: CircuitBreaker
    var waiting = DeliveryQueue()
    var running: [RunID: Run] = [:]
    private var nextRun: RunID = 1
    /// Places and bytes promised to ingest for batches that have not committed yet.
    private var reserved = (count: 0, bytes: 0)
    /// Which messages were handed back uncounted.
    var uncounted = UncountedAttempts()
    /// How many deliveries of each kind may wait: what the handler gets through in about two seconds.
    private var limit: Int
    var finishedSinceTick = 0
    /// The size of a claimed message, as the claims so far let expect; before the first, as large as any.
    private var expectedBytes = 256 * 1024
    /// The most bytes of messages of each kind that may wait; of claimed ones as far as can be foreseen.
    package static let waitingBytes = 16 << 20
    /// Whether the last claim was as large as it could be.
    var hasMore = false

    /// A machine without deliveries.
    package init(_ settings: LaneSettings) {
        self.settings = settings
        breaker = CircuitBreaker(settings.dispatch.breaker)
        limit = min(1_000, settings.dispatch.capacity)
    }

    /// Whether nothing runs and nothing waits.
    package var isIdle: Bool { running.isEmpty && waiting.isEmpty }

    /// Whether it is paused.
    package var isPaused: Bool { mode == .paused }

    /// Whether a delivery that may bring the worker down waits or runs here.
    package var hasSuspect: Bool { waiting.suspects > 0 || running.values.contains { $0.isSuspect } }

    // MARK: Fresh messages

    /// Asks for places for a batch that is about to be committed, so that its rows can be inserted under our lease.
    ///
    /// - Parameters:
    ///   - count: The messages in the batch.
    ///   - bytes: About what they take in memory.
    /// - Returns: False where the handler has no room, or must take its messages from the table.
    package mutating func reserve(_ count: Int, bytes: Int = 0) -> Bool {
        guard mode == .active, !settings.isOrdered, breaker.isClosed,
            waiting.fresh + reserved.count + count <= limit,
            waiting.freshBytes + reserved.bytes + bytes <= Self.waitingBytes
        else { return false }
        reserved.count += count
        reserved.bytes += bytes
        return true
    }

    /// The batch has committed, or not: gives its places back and takes the deliveries that came of it.
    ///
    /// - Returns: Those that can't be run here any more, to be released.
    package mutating func handOver(_ deliveries: [Delivery], reserved count: Int, bytes: Int = 0) -> [Settlement] {
        reserved.count -= count
        reserved.bytes -= bytes
        guard mode == .active else { return deliveries.map(Settlement.release) }
        for delivery in deliveries { waiting.append(delivery, isFresh: true) }
        return []
    }

    // MARK: Claims

    /// How many deliveries to claim now; 0 where there is no room or the handler rests.
    package func claimLimit(now: ContinuousClock.Instant) -> Int {
        guard mode == .active else { return 0 }
        switch breaker.admission(now: now) {
        case .refused: return 0
        case .probe: return waiting.isEmpty ? 1 : 0
        case .pass:
            // Small claims cost as much as large ones: wait until there is room for a good part of the limit.
            let limit = min(limit, max(1, Self.waitingBytes / expectedBytes))
            let room = limit - waiting.claimed
            return room * 2 >= limit ? min(room, 500) : 0
        }
    }

    /// Whether the next attempt would be a probe, for which a message that never failed is claimed first.
    package func isAboutToProbe(now: ContinuousClock.Instant) -> Bool { breaker.admission(now: now) == .probe }

    /// Takes what was claimed.
    ///
    /// - Parameters:
    ///   - deliveries: Each under a lease of ours.
    ///   - hasMore: Whether the table is likely to hold more that is due.
    /// - Returns: What can't be run here: set aside where workers keep dying over it, released where the handler was
    ///   paused or stopped meanwhile.
    package mutating func claimed(_ deliveries: [Delivery], hasMore: Bool) -> [Settlement] {
        self.hasMore = hasMore
        if !deliveries.isEmpty {
            let bytes = deliveries.reduce(0) { $0 + $1.content.size } / deliveries.count
            // Larger ones are believed at once, smaller ones step by step.
            expectedBytes = max(bytes, expectedBytes / 8, 1)
        }
        guard mode == .active else { return deliveries.map(Settlement.release) }
        var settlements: [Settlement] = []
        for delivery in deliveries {
            if delivery.crashes >= settings.dispatch.crashLimit {
                settlements.append(Self.dead(delivery, .crashed(times: delivery.crashes)))
            } else if case .missing = delivery.content {
                settlements.append(Self.dead(delivery, .missing))
            } else {
                waiting.append(delivery, isFresh: false)
            }
        }
        return settlements
    }

    private static func dead(_ delivery: Delivery, _ failure: HandlerFailure) -> Settlement {
        Settlement(
            messageKey: delivery.messageKey,
            token: delivery.lease.token,
            outcome: .dead(failure, isCounted: false)
        )
    }

    // MARK: Attempts

    /// What a free slot is to do.
    package enum NextAction: Sendable {
        /// Run this delivery's attempt, until the deadline.
        case run(RunID, Delivery, attempt: Int, deadline: ContinuousClock.Instant)
        /// Wait until something changes.
        case wait
        /// End: nothing more is going to run.
        case end
    }

    /// Gives a free slot something to do.
    ///
    /// Deliveries whose lease has ended while they waited are dropped: the table has them.
    package mutating func next(now: ContinuousClock.Instant) -> NextAction {
        switch mode {
        case .stopping: return .end
        case .paused: return .wait
        case .active: break
        }
        guard running.count < settings.concurrency else { return .wait }
        // A lease about to end is not worth starting on.
        let margin = settings.dispatch.lease / 10
        waiting.dropFirst { $0.lease.deadline - margin <= now }
        guard !waiting.isEmpty else { return .wait }
        let admission = breaker.begin(now: now)
        if case .refused = admission { return .wait }
        let retries = running.values.count { !$0.isUntried }
        let allowsTried = admission != .probe && retries < max(1, settings.concurrency / 2)
        guard let delivery = waiting.popFirst(allowsTried: allowsTried) else { return .wait }
        let id = nextRun
        nextRun += 1
        let deadline = now + settings.timeout
        running[id] = Run(
            reference: LeaseReference(messageKey: delivery.messageKey, token: delivery.lease.token),
            deadline: deadline,
            leaseEnd: delivery.lease.deadline,
            attempts: delivery.attempts,
            isUntried: delivery.isUntried,
            isProbe: admission == .probe,
            isSuspect: delivery.isSuspect
        )
        return .run(id, delivery, attempt: delivery.attempts + 1, deadline: deadline)
    }

    // MARK: Pausing and stopping

    /// Pauses or resumes the handler.
    ///
    /// - Returns: Waiting deliveries to hand back.
    package mutating func setPaused(_ isPaused: Bool) -> [Settlement] {
        guard mode != .stopping else { return [] }
        mode = isPaused ? .paused : .active
        return isPaused ? releaseWaiting() : []
    }

    /// No attempt begins from now on.
    ///
    /// - Returns: Waiting deliveries to hand back.
    package mutating func stop() -> [Settlement] {
        mode = .stopping
        return releaseWaiting()
    }

    /// Gives up on the attempts that still run; what they return is ignored.
    ///
    /// - Returns: Their deliveries, to hand back.
    package mutating func abandon() -> [Settlement] {
        let settlements = running.values.filter { !$0.isLost }.map {
            Settlement(messageKey: $0.reference.messageKey, token: $0.reference.token, outcome: .release(after: .zero))
        }
        running = [:]
        return settlements
    }

    /// Adapts how much may wait to the handler's speed; called about once a second.
    package mutating func tick() {
        defer { finishedSinceTick = 0 }
        // An idle handler says nothing about its speed.
        guard finishedSinceTick > 0 || !waiting.isEmpty else { return }
        let least = max(16, settings.concurrency * 2)
        limit = min(max(finishedSinceTick * 2, limit / 2, least), max(settings.dispatch.capacity, least))
    }

    mutating func releaseWaiting() -> [Settlement] {
        waiting.removeAll().map(Settlement.release)
    }
}
