import Synchronization
import Tracing
import UpstreamKit
import Vocabulary

/// Runs one handler's deliveries: owns its state machine and performs its actions.
final class DispatchLane: Sendable {
    typealias RunID = DispatchStateMachine.RunID
    typealias Attempt = DispatchStateMachine.Attempt

    struct State {
        var machine: DispatchStateMachine
        var waiters: [Promise<Void>] = []
        /// Counts changes, so that a slot about to wait does not miss one.
        var generation = 0
        var slots: [Slot] = []
    }

    typealias SlotTask = Task<SlotEnd, Never>

    struct Slot {
        /// The task that runs its attempts; nil until it is known.
        var task: SlotTask?
        var runs: [RunID] = []
        /// Whether the task is, or is about to be, cancelled: no other attempt may begin in it.
        var isCancelled = false
    }

    enum SlotEnd: Sendable {
        /// Nothing more is going to run.
        case stopped
        /// An attempt was cancelled, and with it the task.
        case cancelled
        /// The handler asked to be paused in the database.
        case pause(HandlerFailure)
    }

    let index: Int
    let settings: LaneSettings
    /// Whether it is for every category, and otherwise the names and prefixes of its own.
    let takesAll: Bool
    private let names: [[UInt8]]
    private let prefixes: [[UInt8]]
    let shared: DispatchShared
    let report: HandlerReport
    let settler: DispatchSettler
    /// Set if the handler is given its messages in few calls.
    private let immediate: (any ImmediateHandler)?
    let state: Mutex<State>
    /// Wakes the loop that claims for this handler.
    let claims = DispatchSignal()

    init(index: Int, _ registration: HandlerRegistration, _ shared: DispatchShared) {
        (self.index, self.shared) = (index, shared)
        // With tracing, each attempt needs its own span.
        immediate = shared.tracing == nil ? registration.immediate : nil
        settings = LaneSettings(registration, shared.settings, isImmediate: immediate != nil)
        let set = registration.categories
        (takesAll, names, prefixes) = (set.isAll, set.exact, set.prefixes)
        report = HandlerReport(registration.name, shared.report)
        // The next message of a device can be claimed once the previous one is settled.
        let claims = settings.isOrdered ? claims : nil
        settler = DispatchSettler(registration.name, shared, report, claims: claims)
        state = Mutex(State(machine: DispatchStateMachine(settings)))
    }

    /// Whether a message of this category is the handler's.
    func takes(_ category: ByteSpan?, of bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        guard !takesAll else { return true }
        guard let category else { return false }
        let name = UnsafeBufferPointer(rebasing: bytes[category.range])
        return names.contains { $0.elementsEqual(name) } || prefixes.contains { name.starts(with: $0) }
    }

    var activity: HandlerActivity {
        let now = shared.clock.now()
        return inspect { machine in
            let (circuit, probe) = machine.breaker.phase(now: now)
            return HandlerActivity(
                handler: settings.name,
                circuit: circuit,
                nextProbe: probe.map { now.duration(to: $0) },
                isPaused: machine.isPaused,
                running: machine.running.count,
                waiting: machine.waiting.count,
                lastFailure: machine.lastFailure?.logText,
                failedInRow: machine.failedInRow
            )
        }
    }

    /// Settles deliveries that did not run.
    func release(_ settlements: [Settlement], isUrgent: Bool = false) {
        report.settledUnrun(settlements)
        settler.submit(settlements, isUrgent: isUrgent)
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

    /// Runs one slot: attempt after attempt, until the machine ends it; `pause` when the handler asks for that.
    func work(pause: @Sendable (HandlerFailure) async -> Void) async {
        let slot = state.withLock { state in
            state.slots.append(Slot())
            return state.slots.count - 1
        }
        while true {
            // Not a child task, as the deadline and lease loops must be able to cancel a single attempt. It never outlives
            // this call, and is cancelled with it. Attempts share one until one of them is cancelled.
            let task = Task {
                if let immediate { await attemptsAtOnce(immediate) } else { await attempts(slot) }
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

    private func attempts(_ slot: Int) async -> SlotEnd {
        while true {
            await settler.waitForRoom()
            let start = shared.clock.now()
            let (call, end, generation) = state.withLock { state -> ([Attempt], SlotEnd?, Int) in
                // An attempt must not begin in a task about to be cancelled.
                if state.slots[slot].isCancelled { return ([], .cancelled, 0) }
                let call = state.machine.beginCall(now: start)
                state.slots[slot].runs = call.map(\.id)
                return (call, state.machine.isStopping ? .stopped : nil, state.generation)
            }
            guard !call.isEmpty else {
                if let end { return end }
                await waitForChange(since: generation)
                continue
            }
            let (ended, traces) = await run(call)
            if let pause = finish(call, ended, slot, since: start, traces) { return .pause(pause) }
            if Task.isCancelled { return .cancelled }
        }
    }

    /// Settles the attempts of a call; returns why the handler is to be paused, if it is.
    private func finish(
        _ call: [Attempt],
        _ end: CallEnd,
        _ slot: Int,
        since start: ContinuousClock.Instant,
        _ traces: [AttemptTrace?]
    ) -> HandlerFailure? {
        let now = shared.clock.now()
        let actions = state.withLock { state in
            state.slots[slot].runs = []
            state.generation += 1
            state.machine.called(call, took: now - start, areTogether: end.areTogether, now: now)
            return zip(call, end.ends).map { attempt, end in
                state.machine.finished(attempt.id, end, now: now, random: shared.clock.random())
            }
        }
        // Each gets its share, so that sums in metric and history are the elapsed time.
        let took = (now - start) / call.count
        for (index, action) in actions.enumerated() {
            if let trace = traces[index] { trace.ended(action.ending, end.ends[index].failure) }
            conclude(action, end.ends[index], call[index], from: start, to: start + took)
        }
        return actions.lazy.compactMap(\.pause).first
    }

    func conclude(
        _ action: DispatchStateMachine.FinishAction,
        _ end: AttemptEnd,
        _ attempt: Attempt,
        from start: ContinuousClock.Instant,
        to now: ContinuousClock.Instant
    ) {
        report.attemptEnded(action, end.failure, attempt, took: now - start)
        if let transition = action.transition {
            report.breaker(transition, end.failure)
            // Wakes slots that waited for the breaker.
            withMachine { _ in }
        }
        if action.isHeld || action.isCircuitUntold { shared.controls.set() }
        let own = settlement(of: action, attempt.delivery, from: start, to: now)
        if let own { settler.submit(CollectionOfOne(own), isUrgent: settings.isOrdered) }
        settler.submit(action.released, isUrgent: own != nil && settings.isOrdered)
        // If the handler settled the row itself, no settler wakes the claims for the device's next message. Suspects
        // are claimed apart: the next ones may be claimed now.
        let isNextOfDevice = settings.isOrdered && action.settlement == nil
        if isNextOfDevice || attempt.delivery.isSuspect || action.wantsClaim { claims.set() }
    }

    func settlement(
        of action: DispatchStateMachine.FinishAction,
        _ delivery: Delivery,
        from start: ContinuousClock.Instant,
        to now: ContinuousClock.Instant
    ) -> Settlement? {
        guard var settlement = action.settlement else { return nil }
        if settings.dispatch.recordsAttempts, let ending = action.ending {
            settlement.attempt = AttemptRecord(
                outcome: ending,
                started: start,
                took: start.duration(to: now),
                receivedAt: delivery.receivedAt
            )
        }
        return settlement
    }

    func cancel(_ runs: [RunID]) {
        guard !runs.isEmpty else { return }
        let tasks = state.withLock { state in
            runs.compactMap { id in
                guard let slot = state.slots.firstIndex(where: { $0.runs.contains(id) }) else {
                    return nil as SlotTask?
                }
                // A task that is not known yet is cancelled once it is.
                state.slots[slot].isCancelled = true
                return state.slots[slot].task
            }
        }
        for task in tasks { task.cancel() }
    }

    /// Runs the attempts of a call; their spans, if any, are ended by the caller.
    private func run(_ attempts: [Attempt]) async -> (CallEnd, [AttemptTrace?]) {
        var ends = Array(repeating: AttemptEnd.verdict(.reject(.missing)), count: attempts.count)
        var traces = [AttemptTrace?](repeating: nil, count: attempts.count)
        var (calls, places): ([AttemptCall], [Int]) = ([], [])
        for (place, attempt) in attempts.enumerated() {
            guard let message = message(of: attempt.delivery) else { continue }
            var context = HandlerContext(
                handler: settings.name,
                attempt: attempt.number,
                replayID: attempt.delivery.replayID,
                deadline: attempt.deadline
            )
            if let tracing = shared.tracing {
                let trace = AttemptTrace(tracing, message, attempt.delivery, context)
                if case .handler = settings.registration.body { trace.inject(into: &context) }
                traces[place] = trace
            }
            calls.append(AttemptCall(attempt.delivery, message, context))
            places.append(place)
        }
        guard let first = places.first else { return (CallEnd(ends), traces) }
        let (registration, execute) = (settings.registration, shared.execute)
        let end: CallEnd
        if let trace = traces[first] {
            end = await InstrumentationContext.withValue(trace.context) { [calls] in await execute(registration, calls)
            }
        } else {
            end = await execute(registration, calls)
        }
        for (place, end) in zip(places, end.ends) { ends[place] = end }
        return (CallEnd(ends, areTogether: end.areTogether), traces)
    }

    private func message(of delivery: Delivery) -> UpstreamMessage? {
        switch delivery.content {
        case .stored(let message): message
        case .received(let box):
            shared.senderIDs.indices.contains(Int(box.message.sender))
                ? UpstreamMessage(box.message, senderID: shared.senderIDs[Int(box.message.sender)]) : nil
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
