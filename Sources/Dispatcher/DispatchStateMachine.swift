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
        /// When its time was found to be over, and it was cancelled; nil before.
        var timedOut: FixedInstant?
        var isLost = false
        /// Whether it is the first of a call that gives way to live deliveries.
        var leadsReplayed = false

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
    /// Attempts that failed since the last success, also those that the table does not count.
    package internal(set) var failedInRow = 0
    var waiting = DeliveryQueue()
    var running: [RunID: Run] = [:]
    private var nextRun: RunID = 1
    /// Capacity and bytes reserved for ingest batches that have not committed yet.
    private var reserved = (count: 0, bytes: 0)
    /// Messages released without a counted attempt.
    var uncounted = UncountedAttempts()
    /// How many deliveries of each kind may wait: about two seconds of the handler's throughput.
    private(set) var limit: Int
    var finishedSinceTick = 0
    /// How many messages a call takes.
    var batch: BatchSize
    /// What replayed deliveries get beside live ones.
    var replay: ReplayShare
    /// Whether the last claim was full.
    var hasMore = false
    /// For a handler with a rate: whether a message for it has committed, into the table, since the last claim began.
    var hasArrived = false
    /// How many suspects are claimed at once: more each time that all of them did no harm.
    var suspectsAtOnce = 1
    /// The reason for a pause that the table does not know yet.
    var untoldHold: String?
    /// A change of the circuit that the table does not know yet: whether it opened.
    var untoldCircuit: Bool?
    /// The table's latest change of the circuit.
    var circuit: CircuitChange?
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
        replay = ReplayShare(settings)
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
        // All are live, or all of one replay.
        if let first = deliveries.first, !first.givesWay { replay.liveCame(now) }
        for delivery in deliveries { waiting.append(delivery, isFresh: true) }
        return releaseRefused(now: now)
    }

    /// Whether the next attempt would be a probe, for which a message that never failed is claimed first.
    package func isAboutToProbe(now: ContinuousClock.Instant) -> Bool { breaker.admission(now: now) == .probe }

    /// Takes claimed deliveries; `hasMore` if the table probably holds more that is due, `hasMoreReplayed` if
    /// that is so of replayed ones; nil if the claim did not look for these.
    ///
    /// - Returns: What can't run here: set aside if workers keep dying over it, released if the handler was paused or
    ///   stopped, or its breaker has opened, meanwhile.
    package mutating func claimed(
        _ deliveries: [Delivery],
        hasMore: Bool,
        hasMoreReplayed: Bool? = nil,
        now: ContinuousClock.Instant
    ) -> [Settlement] {
        self.hasMore = hasMore
        replay.claimed(deliveries, hasMore: hasMoreReplayed, now: now)
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
    /// What has failed before goes alone: it would cost the others their call again. Live deliveries and replayed ones
    /// don't share a call: it ends with the last of its messages.
    package mutating func beginCall(now: ContinuousClock.Instant) -> [Attempt] {
        let slots = slots(now: now)
        guard let first = begin(now: now, .first(slots: slots)) else { return [] }
        var call = [first]
        var bytes = first.delivery.content.size
        let isReplayed = first.delivery.givesWay
        if isReplayed {
            running[first.id]?.leadsReplayed = true
            replay.running += 1
        }
        guard first.delivery.isSociable else { return call }
        let shares = isReplayed ? replay.most(of: slots, now: now) : slots
        let size = isReplayed ? replay.size(of: batch, slots: slots, now: now) : batch.size
        let most = min(size, (waiting.count(replayed: isReplayed) + shares) / shares)
        while call.count < most, bytes < BatchSize.mostBytes, let next = begin(now: now, .next(replayed: isReplayed)) {
            bytes += next.delivery.content.size
            call.append(next)
        }
        return call
    }

    /// Learns from a call how many messages the next ones take.
    package mutating func called(_ call: [Attempt], took: Duration, areTogether: Bool, now: ContinuousClock.Instant) {
        batch.called(call.count, took: took, areTogether: areTogether)
        replay.called(
            call.count,
            isReplayed: call.first?.delivery.givesWay == true,
            took: took,
            areTogether: areTogether,
            slots: slots(now: now),
            now: now
        )
    }

    /// How many calls may run at the same time now.
    private func slots(now: ContinuousClock.Instant) -> Int {
        max(1, share?.calls(most: settings.slots, now: now) ?? settings.slots)
    }

    /// The place of an attempt in its call.
    private enum Place {
        case only
        case first(slots: Int)
        case next(replayed: Bool)
    }

    /// Begins an attempt, if one may; drops waiting deliveries whose lease ended: the table has them.
    package mutating func begin(now: ContinuousClock.Instant) -> Attempt? { begin(now: now, .only) }

    private mutating func begin(now: ContinuousClock.Instant, _ place: Place) -> Attempt? {
        guard mode == .active, running.count < settings.concurrency else { return nil }
        if let share, running.count >= share.calls(most: settings.calls, now: now) * settings.batch { return nil }
        waiting.dropFirst(endingBy: now + margin)
        guard !waiting.isEmpty else { return nil }
        let isProbe = !breaker.isClosed
        if isProbe, case .refused = breaker.begin(now: now) { return nil }
        guard let delivery = pop(place, isProbe: isProbe, now: now) else { return nil }
        budget?.spend(now: now)
        let id = nextRun
        nextRun += 1
        let deadline = now + settings.registration.timeout
        running[id] = Run(delivery, until: deadline, isProbe: isProbe)
        return Attempt(id: id, delivery: delivery, number: delivery.attempts + 1, deadline: deadline)
    }

    private mutating func pop(_ place: Place, isProbe: Bool, now: ContinuousClock.Instant) -> Delivery? {
        var allowsReplayed = true
        switch place {
        case .next(let isReplayed): return waiting.popNext(replayed: isReplayed)
        case .only: break
        case .first(let slots): allowsReplayed = isProbe || replay.running < replay.most(of: slots, now: now)
        }
        let retries = waiting.hasTried ? running.values.count { !$0.delivery.isSociable } : 0
        let allowsTried = !isProbe && retries < max(1, settings.calls / 2)
        return waiting.popFirst(allowsTried: allowsTried, allowsReplayed: allowsReplayed)
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
        defer { (running, replay.running) = ([:], 0) }
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

    /// Releases what came after the breaker had opened: a claim, a commit, or the rest of a call, that was under way then.
    ///
    /// Otherwise it would wait under this worker's lease until the pause ends, however long that is.
    mutating func releaseRefused(now: ContinuousClock.Instant) -> [Settlement] {
        guard case .refused(until: _?) = breaker.admission(now: now) else { return [] }
        return releaseWaiting()
    }

    mutating func releaseWaiting() -> [Settlement] {
        waiting.removeAll().map { $0.settled(.release(after: .zero)) }
    }
}
