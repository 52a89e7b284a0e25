package import UpstreamKit
package import Vocabulary

/// One handler's deliveries in this worker: which wait, which run, and which leases have to be extended.
///
/// - *active* takes deliveries and runs them → `setPaused(true)` *paused*, `stop()` *stopping*.
/// - *paused* holds no waiting delivery; running attempts continue → `setPaused(false)` *active*, `stop()` *stopping*.
/// - *stopping* lets running attempts end and takes nothing more; final.
///
/// A delivery is waiting, running, or gone. After ``finished(_:_:now:random:)``, and every method that returns
/// settlements, the machine no longer knows the delivery; the caller must bring the settlements into the table.
package struct DispatchStateMachine: Sendable {
    enum Mode: Sendable {
        case active
        case paused
        case stopping
    }

    /// Identifies an attempt; never reused, as a delivery may return while an earlier attempt still hangs.
    package typealias RunID = UInt64

    struct Run: Sendable {
        var delivery: Delivery
        @FixedInstant var deadline: ContinuousClock.Instant
        var isProbe: Bool
        var isTimedOut = false
        var isLost = false

        init(_ delivery: Delivery, until deadline: ContinuousClock.Instant, isProbe: Bool) {
            (self.delivery, self.isProbe) = (delivery, isProbe)
            self.deadline = deadline
        }
    }

    private(set) var settings: LaneSettings
    var mode = Mode.active
    var breaker: CircuitBreaker
    /// The latest failure of the handler itself.
    var lastFailure: HandlerFailure?
    var waiting = DeliveryQueue()
    var running: [RunID: Run] = [:]
    private var nextRun: RunID = 1
    /// Capacity and bytes reserved for ingest batches that have not committed yet.
    private var reserved = (count: 0, bytes: 0)
    /// Messages released without a counted attempt.
    var uncounted = UncountedAttempts()
    /// How many deliveries of each kind may wait: about two seconds of the handler's throughput.
    private var limit: Int
    var finishedSinceTick = 0
    /// How many messages a call takes.
    var batch: BatchSize
    /// Whether the last claim was full.
    var hasMore = false
    /// For a handler with a rate: whether a message for it has committed, into the table, since the last claim began.
    var hasArrived = false
    /// How many suspects are claimed at once: more each time that all of them did no harm.
    var suspectsAtOnce = 1
    /// The reason for a pause that the table does not know yet.
    var untoldHold: String?
    /// When an operator last resumed the handler; nil before the table was read.
    var resumption: Int64?
    /// The budget of the handler's rate; nil without one.
    var budget: AttemptBudget?
    /// This worker's share of what holds over all workers; nil without such a limit.
    var share: LimitShare?
    /// An attempt does not begin if its lease ends within this time.
    private let margin: Duration

    package init(_ settings: LaneSettings) {
        self.settings = settings
        breaker = CircuitBreaker(settings.dispatch.breaker)
        share = settings.registration.limit.map { LimitShare($0) }
        budget = settings.rate.map { AttemptBudget(perSecond: $0.perSecond) }
        margin = settings.dispatch.lease / 10
        limit = min(1_000, settings.dispatch.capacity)
        batch = BatchSize(upTo: settings.batch, keepsShort: settings.keepsCallsShort)
    }

    package var isIdle: Bool { running.isEmpty && waiting.isEmpty }

    package var isPaused: Bool { mode == .paused }

    package var isStopping: Bool { mode == .stopping }

    /// Changes the retry policy; scheduled attempts keep their time.
    package mutating func adopt(_ retry: RetryPolicy) { settings.registration.retry = retry }

    // MARK: Fresh messages

    /// Reserves capacity for a batch about to be committed, so that its rows can be inserted under our lease.
    ///
    /// `bytes` is the batch's estimated memory.
    ///
    /// - Returns: False if the handler has no room, or must take its messages from the table.
    package mutating func reserve(_ count: Int, bytes: Int = 0) -> Bool {
        // Which messages a filter lets pass, only the database knows.
        guard mode == .active, !settings.isOrdered, !settings.isLimited, breaker.isClosed,
            settings.registration.filter == nil,
            waiting.fresh + reserved.count + count <= limit,
            waiting.freshBytes + reserved.bytes + bytes <= settings.dispatch.waitingBytes
        else { return false }
        reserved.count += count
        reserved.bytes += bytes
        return true
    }

    /// The room for replayed messages: half of the rest, for the sake of new ones; nil if they must be rows.
    package var replayRoom: (count: Int, bytes: Int)? {
        guard mode == .active, settings.isPackable, !settings.isLimited, breaker.isClosed, limit >= 256
        else {
            return nil
        }
        let bytes = settings.dispatch.waitingBytes / 2 - waiting.freshBytes - reserved.bytes
        // Small steps cost as much as large ones.
        guard bytes >= settings.dispatch.waitingBytes / 4 else { return (0, 0) }
        return (max(0, limit / 2 - waiting.fresh - reserved.count), bytes)
    }

    /// Frees the reservation of a batch, committed or not, and takes its deliveries; returns those that can't run here.
    package mutating func handOver(
        _ deliveries: [Delivery],
        reserved count: Int,
        bytes: Int = 0,
        now: ContinuousClock.Instant
    ) -> [Settlement] {
        reserved.count -= count
        reserved.bytes -= bytes
        guard mode == .active else { return deliveries.map { $0.settled(.release(after: .zero)) } }
        for delivery in deliveries { waiting.append(delivery, isFresh: true) }
        return releaseRefused(now: now)
    }

    /// How many deliveries to claim now; 0 without room, or while the handler is paused or its breaker open.
    ///
    /// For a handler with a rate, no more than may begin at once, and with a limit over all workers, about as much as
    /// may run at once: the rest waits in the table, not under a lease of this worker.
    package func claimLimit(now: ContinuousClock.Instant) -> Int {
        var allowed = unlimitedClaim(now: now)
        if let share {
            let calls = share.calls(most: settings.calls, now: now)
            allowed = min(allowed, max(0, 2 * calls * settings.batch - running.count - waiting.count))
        }
        guard let budget else { return allowed }
        let budgeted = budget.allowed(now: now) - waiting.count
        return budgeted >= budget.portion ? min(budgeted, allowed) : 0
    }

    private func unlimitedClaim(now: ContinuousClock.Instant) -> Int {
        guard mode == .active else { return 0 }
        switch breaker.admission(now: now) {
        case .refused: return 0
        case .probe: return waiting.isEmpty ? 1 : 0
        case .pass:
            // Small claims cost as much as large ones: wait until half of the limit is free. Replayed deliveries that
            // let live ones go first hold up no claim of live ones.
            let room = limit - (waiting.hasLive ? waiting.claimed - waiting.claimedReplayed : waiting.claimed)
            return room * 2 >= limit && claimBytes >= settings.dispatch.waitingBytes / 2 ? min(room, 500) : 0
        }
    }

    /// About how many bytes may be claimed now: at most half of the limit, as reading takes twice as much.
    package var claimBytes: Int {
        let most = settings.dispatch.waitingBytes
        return min(most / 2, most - waiting.claimedBytes)
    }

    /// Whether the next attempt would be a probe, for which a message that never failed is claimed first.
    package func isAboutToProbe(now: ContinuousClock.Instant) -> Bool { breaker.admission(now: now) == .probe }

    /// Takes claimed deliveries; `hasMore` if the table probably holds more that is due.
    ///
    /// - Returns: What can't run here: set aside if workers keep dying over it, released if the handler was paused or
    ///   stopped, or its breaker has opened, meanwhile.
    package mutating func claimed(
        _ deliveries: [Delivery],
        hasMore: Bool,
        now: ContinuousClock.Instant
    ) -> [Settlement] {
        self.hasMore = hasMore
        guard mode == .active else { return deliveries.map { $0.settled(.release(after: .zero)) } }
        var settlements: [Settlement] = []
        for var delivery in deliveries {
            delivery.isSuspect = delivery.crashes >= settings.suspectFrom
            if delivery.crashes >= settings.crashLimit {
                settlements.append(delivery.settled(.dead(.crashed(times: delivery.crashes), isCounted: false)))
            } else if case .missing = delivery.content {
                settlements.append(delivery.settled(.dead(.missing, isCounted: false)))
            } else {
                waiting.append(delivery, isFresh: false)
            }
        }
        return settlements + releaseRefused(now: now)
    }

    // MARK: Attempts

    package struct Attempt: Sendable {
        package var id: RunID
        package var delivery: Delivery
        /// Its number within the delivery, from 1.
        package var number: Int
        @FixedInstant package var deadline: ContinuousClock.Instant
    }

    /// Begins the attempts of one call: several where the handler takes several, so that each slot has its share.
    ///
    /// What has failed before goes alone: it would cost the others their call again.
    package mutating func beginCall(now: ContinuousClock.Instant) -> [Attempt] {
        let slots = max(1, share?.calls(most: settings.slots, now: now) ?? settings.slots)
        let most = min(batch.size, (waiting.count + slots - 1) / slots)
        guard let first = begin(now: now) else { return [] }
        var call = [first]
        var bytes = first.delivery.content.size
        guard first.delivery.isSociable else { return call }
        while call.count < most, bytes < BatchSize.mostBytes, let next = begin(now: now, isForUntried: true) {
            bytes += next.delivery.content.size
            call.append(next)
        }
        return call
    }

    /// Begins an attempt, if one may; drops waiting deliveries whose lease ended: the table has them.
    package mutating func begin(now: ContinuousClock.Instant, isForUntried: Bool = false) -> Attempt? {
        guard mode == .active, running.count < settings.concurrency else { return nil }
        if let share, running.count >= share.calls(most: settings.calls, now: now) * settings.batch { return nil }
        waiting.dropFirst(endingBy: now + margin)
        guard isForUntried ? waiting.hasUntried : !waiting.isEmpty else { return nil }
        let isProbe = !breaker.isClosed
        if isProbe, case .refused = breaker.begin(now: now) { return nil }
        let retries = waiting.hasTried && !isForUntried ? running.values.count { !$0.delivery.isSociable } : 0
        let allowsTried = !isProbe && !isForUntried && retries < max(1, settings.calls / 2)
        guard let delivery = waiting.popFirst(allowsTried: allowsTried) else { return nil }
        budget?.spend(now: now)
        let id = nextRun
        nextRun += 1
        let deadline = now + settings.registration.timeout
        running[id] = Run(delivery, until: deadline, isProbe: isProbe)
        return Attempt(id: id, delivery: delivery, number: delivery.attempts + 1, deadline: deadline)
    }

    // MARK: Pausing and stopping

    /// Pauses or resumes the handler; returns waiting deliveries to release.
    package mutating func setPaused(_ isPaused: Bool) -> [Settlement] {
        guard mode != .stopping else { return [] }
        mode = isPaused ? .paused : .active
        return isPaused ? releaseWaiting() : []
    }

    /// Stops new attempts; returns waiting deliveries to release.
    package mutating func stop() -> [Settlement] {
        mode = .stopping
        return releaseWaiting()
    }

    /// Abandons running attempts, whose results are then ignored; returns their deliveries to release.
    package mutating func abandon() -> [Settlement] {
        defer { running = [:] }
        return running.values.filter { !$0.isLost }.map { $0.delivery.settled(.release(after: .zero)) }
    }

    /// Adapts the queue limit to the handler's throughput; called about once a second.
    package mutating func tick() {
        defer { finishedSinceTick = 0 }
        // An idle handler says nothing about its throughput.
        guard finishedSinceTick > 0 || !waiting.isEmpty else { return }
        let least = max(16, settings.calls * 2)
        limit = min(max(finishedSinceTick * 2, limit / 2, least), max(settings.dispatch.capacity, least))
    }

    /// Releases what came after the breaker had opened: a claim, or a commit, that was under way then.
    ///
    /// Otherwise it would wait under this worker's lease until the pause ends, however long that is.
    private mutating func releaseRefused(now: ContinuousClock.Instant) -> [Settlement] {
        guard case .refused(until: _?) = breaker.admission(now: now) else { return [] }
        return releaseWaiting()
    }

    mutating func releaseWaiting() -> [Settlement] {
        waiting.removeAll().map { $0.settled(.release(after: .zero)) }
    }
}
