import Synchronization
import Telemetry
import Tracing
package import UpstreamKit
import Vocabulary

/// Runs one handler's deliveries: owns its state machine and performs its actions.
final class DispatchLane: Sendable {
    typealias RunID = DispatchStateMachine.RunID

    struct State {
        var machine: DispatchStateMachine
        /// Idle slots.
        var waiters: [Promise<Void>] = []
        /// Counts changes, so that a slot about to wait does not miss one.
        var generation = 0
        var slots: [Slot] = []
    }

    typealias SlotTask = Task<SlotEnd, Never>

    struct Slot {
        /// The task that runs its attempts; nil until it is known.
        var task: SlotTask?
        /// The attempt under way.
        var run: RunID?
        /// Whether the task is, or is about to be, cancelled: no other attempt may begin in it.
        var isCancelled = false
    }

    /// Why a slot's task has ended.
    enum SlotEnd: Sendable {
        /// Nothing more is going to run.
        case stopped
        /// An attempt was cancelled, and with it the task.
        case cancelled
        /// The handler asked to be paused in the database.
        case pause(HandlerFailure)
    }

    let index: Int
    let registration: HandlerRegistration
    let settings: LaneSettings
    private let senderIDs: [String]
    let clock: TimeSource
    let report: DispatchReport
    private let tracing: MessageTracing?
    private let execute: DeliveryExecutor
    /// Set if the handler is given its messages in few calls.
    private let immediate: (any ImmediateHandler)?
    let state: Mutex<State>
    /// Wakes the loop that claims for this handler.
    let claims = DispatchSignal()
    /// Wakes the loop that publishes pauses that handlers ask for.
    private let holds: DispatchSignal

    init(
        index: Int,
        registration: HandlerRegistration,
        settings: DispatchSettings,
        senderIDs: [String],
        clock: TimeSource,
        report: DispatchReport,
        holds: DispatchSignal,
        tracing: MessageTracing?,
        execute: @escaping DeliveryExecutor
    ) {
        self.index = index
        self.registration = registration
        // With tracing, each attempt needs its own span.
        immediate = tracing == nil ? registration.immediate : nil
        self.settings = immediate == nil ? LaneSettings(registration, settings) : .immediate(registration, settings)
        self.senderIDs = senderIDs
        self.clock = clock
        self.report = report
        self.holds = holds
        self.tracing = tracing
        self.execute = execute
        state = Mutex(State(machine: DispatchStateMachine(self.settings)))
    }

    /// Changes the machine, and wakes slots that may have work now.
    func withMachine<T: Sendable>(wake count: Int = .max, _ body: (inout DispatchStateMachine) -> T) -> T {
        let (value, waiters) = state.withLock { state in
            let value = body(&state.machine)
            state.generation += 1
            let waiters = Array(state.waiters.suffix(count))
            state.waiters.removeLast(waiters.count)
            return (value, waiters)
        }
        for waiter in waiters { waiter.fulfil() }
        return value
    }

    func inspect<T: Sendable>(_ body: (borrowing DispatchStateMachine) -> T) -> T {
        state.withLock { body($0.machine) }
    }

    /// Runs one slot: attempt after attempt, until the machine ends it.
    ///
    /// - Parameters:
    ///   - settler: Takes the settlements.
    ///   - pause: Called when the handler asks to be paused in the database.
    func work(settler: DispatchSettler, pause: @Sendable (HandlerFailure) async -> Void) async {
        let slot = state.withLock { state in
            state.slots.append(Slot())
            return state.slots.count - 1
        }
        while true {
            // Not a child task, as the deadline and lease loops must be able to cancel a single attempt. It never outlives
            // this call, and is cancelled with it. Attempts share one until one of them is cancelled.
            let task = Task {
                if let immediate { await attemptsAtOnce(immediate, settler) } else { await attempts(slot, settler) }
            }
            let isCancelled = state.withLock { state in
                state.slots[slot].task = task
                return state.slots[slot].isCancelled
            }
            if isCancelled { task.cancel() }
            let end = await withTaskCancellationHandler {
                await task.value
            } onCancel: {
                task.cancel()
            }
            switch end {
            case .stopped: return
            case .cancelled: break
            case .pause(let failure): await pause(failure)
            }
            state.withLock { $0.slots[slot] = Slot() }
        }
    }

    /// Runs attempts until the slot needs another task.
    private func attempts(_ slot: Int, _ settler: DispatchSettler) async -> SlotEnd {
        while true {
            await settler.waitForRoom(index)
            let start = clock.now()
            let (action, generation) = state.withLock { state in
                // An attempt must not begin in a task about to be cancelled.
                if state.slots[slot].isCancelled { return (nil as DispatchStateMachine.NextAction?, 0) }
                let action = state.machine.next(now: start)
                if case .run(let id, _, _, _) = action { state.slots[slot].run = id }
                return (action, state.generation)
            }
            switch action {
            case nil: return .cancelled
            case .end: return .stopped
            case .wait: await waitForChange(since: generation)
            case .run(let id, let delivery, let attempt, let deadline):
                let (end, trace) = await run(delivery, attempt: attempt, deadline: deadline.wrappedValue)
                let pause = ended(slot, id, end, delivery, attempt: attempt, since: start, trace, settler)
                if let pause { return .pause(pause) }
                if Task.isCancelled { return .cancelled }
            }
        }
    }

    /// Settles an attempt; returns why the handler is to be paused, if it is.
    private func ended(
        _ slot: Int,
        _ id: RunID,
        _ end: AttemptEnd,
        _ delivery: Delivery,
        attempt: Int,
        since start: ContinuousClock.Instant,
        _ trace: AttemptTrace?,
        _ settler: DispatchSettler
    ) -> HandlerFailure? {
        let now = clock.now()
        let action = state.withLock { state in
            state.slots[slot].run = nil
            state.generation += 1
            return state.machine.finished(id, end, now: now, random: clock.random())
        }
        trace?.ended(action.ending, DispatchReport.failure(end))
        conclude(action, end, delivery, attempt: attempt, from: start, to: now, settler)
        return action.pause
    }

    /// Passes an attempt's result to the table, the claims and the operators.
    func conclude(
        _ action: DispatchStateMachine.FinishAction,
        _ end: AttemptEnd,
        _ delivery: Delivery,
        attempt: Int,
        from start: ContinuousClock.Instant,
        to now: ContinuousClock.Instant,
        _ settler: DispatchSettler
    ) {
        report.attemptEnded(action, end, delivery, attempt: attempt, took: now - start, index)
        if let transition = action.transition {
            report.breaker(transition, end, index)
            // Wakes slots that waited for the breaker.
            withMachine { _ in }
        }
        if action.isHeld { holds.set() }
        if let settlement = settlement(of: action, delivery, from: start, to: now) {
            settler.submit(settlement, action.released, lane: index, isUrgent: settings.isOrdered)
        } else {
            settler.submit(action.released, lane: index)
        }
        // If the handler settled the row itself, no settler wakes the claims for the device's next message. Suspects
        // are claimed apart: the next ones may be claimed now.
        let isNextOfDevice = settings.isOrdered && action.settlement == nil
        if isNextOfDevice || delivery.isSuspect || action.wantsClaim { claims.set() }
    }

    /// The attempt's settlement and its history record.
    func settlement(
        of action: DispatchStateMachine.FinishAction,
        _ delivery: Delivery,
        from start: ContinuousClock.Instant,
        to now: ContinuousClock.Instant
    ) -> Settlement? {
        guard var settlement = action.settlement else { return nil }
        if settings.dispatch.recordsAttempts, let outcome = AttemptRecord.Outcome(action.ending) {
            settlement.attempt = AttemptRecord(
                outcome: outcome,
                started: start,
                took: start.duration(to: now),
                receivedAt: delivery.receivedAt
            )
        }
        return settlement
    }

    /// Cancels attempts that timed out or whose lease was lost.
    func cancel(_ runs: [RunID]) {
        guard !runs.isEmpty else { return }
        let tasks = state.withLock { state in
            runs.compactMap { id in
                guard let slot = state.slots.firstIndex(where: { $0.run == id }) else { return nil as SlotTask? }
                // A task that is not known yet is cancelled once it is.
                state.slots[slot].isCancelled = true
                return state.slots[slot].task
            }
        }
        for task in tasks { task.cancel() }
    }

    /// Runs an attempt; its span, if any, is ended by the caller.
    private func run(
        _ delivery: Delivery,
        attempt: Int,
        deadline: ContinuousClock.Instant
    ) async -> (AttemptEnd, AttemptTrace?) {
        guard let message = message(of: delivery) else { return (.verdict(.reject(.missing)), nil) }
        var context = HandlerContext(
            handler: registration.name,
            attempt: attempt,
            replayID: delivery.replayID,
            deadline: deadline
        )
        guard let tracing else { return (await execute(registration, delivery, message, context), nil) }
        let trace = AttemptTrace(tracing, message, delivery, context)
        if case .handler = registration.body { trace.inject(into: &context) }
        let end = await InstrumentationContext.withValue(trace.context) { [context] in
            await execute(registration, delivery, message, context)
        }
        return (end, trace)
    }

    private func message(of delivery: Delivery) -> UpstreamMessage? {
        switch delivery.content {
        case .stored(let message): message
        case .received(let box):
            senderIDs.indices.contains(Int(box.message.sender))
                ? UpstreamMessage(box.message, senderID: senderIDs[Int(box.message.sender)]) : nil
        case .missing: nil
        }
    }

    func waitForChange(since generation: Int) async {
        let promise = Promise<Void>()
        let waits = state.withLock { state in
            guard state.generation == generation else { return false }
            state.waiters.append(promise)
            return true
        }
        if waits { await promise.wait() }
    }
}

/// Runs one attempt; must end soon after cancellation.
package typealias DeliveryExecutor =
    @Sendable (HandlerRegistration, Delivery, UpstreamMessage, HandlerContext) async -> AttemptEnd
