package import UpstreamKit

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
    private enum Mode: Sendable {
        case active
        case paused
        case stopping
    }

    /// Names one attempt; never reused, as the same delivery may come back while an attempt at it still hangs.
    package typealias RunID = UInt64

    private struct Run: Sendable {
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

    private let settings: LaneSettings
    private var mode = Mode.active
    private var breaker: CircuitBreaker
    private var waiting = DeliveryQueue()
    private var running: [RunID: Run] = [:]
    private var nextRun: RunID = 1
    /// Places and bytes promised to ingest for batches that have not committed yet.
    private var reserved = (count: 0, bytes: 0)
    /// Which messages were handed back uncounted.
    private var uncounted = UncountedTries()
    /// How many deliveries of each kind may wait: what the handler gets through in about two seconds.
    private var limit: Int
    private var finishedSinceTick = 0
    /// The size of a claimed message, as the claims so far let expect; before the first, as large as any.
    private var expectedBytes = 256 * 1024
    /// The most bytes of messages of each kind that may wait; of claimed ones as far as can be foreseen.
    package static let waitingBytes = 16 << 20
    /// Whether the last claim was as large as it could be.
    private var hasMore = false

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

    /// What came of an attempt.
    package enum Ending: Sendable, Equatable {
        /// The handler took the message.
        case done
        /// It comes again.
        case retry
        /// The handler refused it for good.
        case rejected
        /// Its attempts are used up.
        case exhausted
        /// Handed back, not counted.
        case released
        /// The lease had passed on; whoever holds it now decides.
        case lost
    }

    /// What to do once an attempt has ended.
    package struct FinishAction: Sendable, Equatable {
        /// What came of it.
        package var ending: Ending
        /// What the table is to be told; nil where the lease was lost, or the row is settled already.
        package var settlement: Settlement?
        /// What the breaker did.
        package var transition: CircuitBreaker.Transition?
        /// Set where the handler is to be paused in the database, and why.
        package var pause: HandlerFailure?
        /// Waiting deliveries to hand back, as the handler rests from now on.
        package var released: [Settlement] = []
        /// Whether there is room for a claim, and something to claim.
        package var wantsClaim = false
    }

    /// An attempt has ended.
    ///
    /// - Parameters:
    ///   - id: Which one.
    ///   - end: What the handler said, or that it has settled the row itself.
    ///   - now: The current time.
    ///   - random: A number in 0...1 for delays; asked for where there is one.
    /// - Returns: What the table, the breaker and the other slots are to be told.
    package mutating func finished(
        _ id: RunID,
        _ end: AttemptEnd,
        now: ContinuousClock.Instant,
        random: @autoclosure () -> Double
    ) -> FinishAction {
        guard let run = running.removeValue(forKey: id) else { return FinishAction(ending: .lost) }
        finishedSinceTick += 1
        var action = FinishAction(ending: .lost)
        switch end {
        case .settled:
            action.ending = .done
            action.transition = answered(run)
        case .lost:
            if run.isProbe { breaker.probeAbandoned() }
        case .verdict(let verdict):
            let verdict = run.isTimedOut && verdict == .cancelled ? .down(after: nil, .timedOut) : verdict
            let outcome: Settlement.Outcome
            (action.ending, outcome) = self.outcome(of: verdict, run, random: random)
            action.settlement = Settlement(
                messageKey: run.reference.messageKey,
                token: run.reference.token,
                outcome: outcome
            )
            action.transition = transition(after: verdict, run, now: now, random: random)
            if case .pause(let failure) = verdict {
                action.pause = failure
                action.released = setPaused(true)
            }
        }
        switch action.transition {
        case .opened, .held: action.released += releaseWaiting()
        case .closed, nil: break
        }
        if run.isLost, action.settlement != nil {
            action.settlement = nil
            action.ending = .lost
        }
        action.wantsClaim = hasMore && claimLimit(now: now) > 0
        return action
    }

    /// What the table is to be told after this verdict.
    private mutating func outcome(
        of verdict: HandlerVerdict,
        _ run: Run,
        random: () -> Double
    ) -> (Ending, Settlement.Outcome) {
        func counted(_ after: Duration?, _ failure: HandlerFailure) -> (Ending, Settlement.Outcome) {
            switch settings.retry.decide(failures: run.attempts + 1, requested: after, random: random()) {
            case .again(let delay): (.retry, .retry(after: delay, failure))
            case .giveUp: (.exhausted, .dead(failure, isCounted: true))
            }
        }
        func handedBack(_ after: Duration?, _ failure: HandlerFailure) -> (Ending, Settlement.Outcome) {
            let delay = Backoff(initial: .seconds(1), maximum: .seconds(60)).delay(attempt: 3, random: random())
            return (.released, .release(after: min(after ?? delay, settings.retry.maximum), noting: failure))
        }
        switch verdict {
        case .done: return (.done, .done)
        case .reject(let failure): return (.rejected, .dead(failure, isCounted: true))
        case .retry(let after, let failure), .down(let after, _, let failure): return counted(after, failure)
        case .unavailable(let after, let failure):
            let isCounted = uncounted.unavailable(run.reference.messageKey)
            return isCounted ? counted(after, failure) : handedBack(after, failure)
        case .interrupted(let failure):
            let isCounted = uncounted.interrupted(run.reference.messageKey)
            return isCounted ? counted(nil, failure) : handedBack(nil, failure)
        case .pause(let failure): return (.released, .release(after: .zero, noting: failure))
        case .cancelled: return (.released, .release(after: .zero))
        }
    }

    /// What this verdict says about the handler.
    private mutating func transition(
        after verdict: HandlerVerdict,
        _ run: Run,
        now: ContinuousClock.Instant,
        random: () -> Double
    ) -> CircuitBreaker.Transition? {
        switch verdict {
        case .done, .reject, .retry: return answered(run)
        case .down(_, let hold?, _): return breaker.held(for: hold, now: now)
        case .down, .unavailable:
            return breaker.failed(isProbe: run.isProbe, isUntried: run.isUntried, now: now, random: random())
        // Neither up nor down; after an interruption the next attempt shows whether the way to the handler is gone.
        case .interrupted, .pause, .cancelled:
            if run.isProbe { breaker.probeAbandoned() }
            return nil
        }
    }

    /// The handler has said something about the message, whatever it was.
    private mutating func answered(_ run: Run) -> CircuitBreaker.Transition? {
        uncounted.answered(run.reference.messageKey)
        return breaker.succeeded(isProbe: run.isProbe)
    }

    // MARK: Leases and deadlines

    /// Attempts to cancel, as their time is up; each is named once.
    package mutating func overdue(now: ContinuousClock.Instant) -> [RunID] {
        var overdue: [RunID] = []
        for (id, run) in running where !run.isTimedOut && now >= run.deadline {
            running[id]?.isTimedOut = true
            overdue.append(id)
        }
        return overdue
    }

    /// How many attempts go on though their time was up long ago: handlers that don't heed cancellation.
    package func hanging(now: ContinuousClock.Instant) -> Int {
        running.values.count { hangs($0, now: now) }
    }

    /// Leases that need to be extended.
    ///
    /// A hanging attempt's lease is not: another worker may then take its delivery over.
    package func leasesToExtend(now: ContinuousClock.Instant) -> [LeaseReference] {
        let soon = now + settings.dispatch.lease * 2 / 3
        var references = waiting.references { $0.lease.deadline <= soon && $0.lease.deadline > now }
        for run in running.values where run.leaseEnd <= soon && !run.isLost && !hangs(run, now: now) {
            references.append(run.reference)
        }
        return references
    }

    /// The table's answer to ``leasesToExtend(now:)``.
    ///
    /// - Parameters:
    ///   - asked: The leases that were asked for.
    ///   - held: Those of them that are still ours.
    ///   - end: Until when these hold now.
    /// - Returns: Attempts to cancel, as their lease was lost.
    package mutating func extended(
        _ asked: [LeaseReference],
        held: Set<LeaseReference>,
        until end: ContinuousClock.Instant
    ) -> [RunID] {
        let lost = Set(asked).subtracting(held)
        waiting.extend(held, lost: lost, until: end)
        var cancelled: [RunID] = []
        for (id, run) in running {
            if held.contains(run.reference) {
                running[id]?.leaseEnd = end
            } else if lost.contains(run.reference), !run.isLost {
                running[id]?.isLost = true
                cancelled.append(id)
            }
        }
        return cancelled
    }

    private func hangs(_ run: Run, now: ContinuousClock.Instant) -> Bool {
        run.isTimedOut && now >= run.deadline + settings.dispatch.hangGrace
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

    private mutating func releaseWaiting() -> [Settlement] {
        waiting.removeAll().map(Settlement.release)
    }
}
