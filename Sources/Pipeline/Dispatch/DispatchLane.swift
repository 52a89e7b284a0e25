import Synchronization
package import UpstreamKit
import Vocabulary

/// Runs one handler's deliveries: owns its state machine and performs its actions.
final class DispatchLane: Sendable {
    typealias RunID = DispatchStateMachine.RunID

    private struct State {
        var machine: DispatchStateMachine
        /// Slots with nothing to do.
        var waiters: [CheckedContinuation<Void, Never>] = []
        /// Counts changes, so that a slot about to wait does not miss one.
        var generation = 0
        var tasks: [RunID: Task<AttemptEnd, Never>] = [:]
        /// Attempts that were cancelled before their task was known.
        var cancelled: Set<RunID> = []
    }

    let index: Int
    let registration: HandlerRegistration
    let settings: LaneSettings
    private let senderIDs: [String]
    private let clock: PipelineClock
    private let report: DispatchReport
    private let execute: DeliveryExecutor
    private let state: Mutex<State>
    private let claims: DispatchSignal

    init(
        index: Int,
        registration: HandlerRegistration,
        settings: DispatchSettings,
        senderIDs: [String],
        clock: PipelineClock,
        report: DispatchReport,
        claims: DispatchSignal,
        execute: @escaping DeliveryExecutor
    ) {
        self.index = index
        self.registration = registration
        self.settings = LaneSettings(registration, settings)
        self.senderIDs = senderIDs
        self.clock = clock
        self.report = report
        self.claims = claims
        self.execute = execute
        state = Mutex(State(machine: DispatchStateMachine(self.settings)))
    }

    /// Changes the machine, and wakes slots that may have something to do now.
    func withMachine<T: Sendable>(wake count: Int = .max, _ body: (inout DispatchStateMachine) -> T) -> T {
        let (value, waiters) = state.withLock { state in
            let value = body(&state.machine)
            state.generation += 1
            let waiters = Array(state.waiters.suffix(count))
            state.waiters.removeLast(waiters.count)
            return (value, waiters)
        }
        for waiter in waiters { waiter.resume() }
        return value
    }

    /// Reads the machine.
    func inspect<T: Sendable>(_ body: (borrowing DispatchStateMachine) -> T) -> T {
        state.withLock { body($0.machine) }
    }

    /// One slot: attempt after attempt, until the machine says that none is to follow.
    ///
    /// - Parameters:
    ///   - settler: Takes what came of them.
    ///   - pause: Called when the handler asks to be paused in the database.
    func work(settler: DispatchSettler, pause: @Sendable (HandlerFailure) async -> Void) async {
        while true {
            await settler.waitForRoom()
            let (action, generation) = state.withLock { ($0.machine.next(now: clock.now()), $0.generation) }
            switch action {
            case .end: return
            case .wait: await waitForChange(since: generation)
            case .run(let id, let delivery, let attempt, let deadline):
                let start = clock.now()
                let end = await run(id, delivery, attempt: attempt, deadline: deadline)
                let now = clock.now()
                let action = withMachine(wake: 0) { $0.finished(id, end, now: now, random: clock.random()) }
                report.attemptEnded(action, end, delivery, attempt: attempt, took: now - start, index)
                if let transition = action.transition {
                    report.breaker(transition, end, index)
                    // Wakes slots that waited for the breaker.
                    withMachine { _ in }
                }
                if let settlement = action.settlement {
                    settler.submit([settlement] + action.released, lane: index, isUrgent: settings.isOrdered)
                } else {
                    settler.submit(action.released, lane: index)
                }
                // If the handler settled the row itself, no settler wakes the claims for the device's next message. Deliveries
                // that may crash the worker are claimed one at a time: the next one may be claimed now.
                let isNextOfDevice = settings.isOrdered && action.settlement == nil
                if action.wantsClaim || isNextOfDevice || delivery.isSuspect { claims.set() }
                if let failure = action.pause { await pause(failure) }
            }
        }
    }

    /// Cancels attempts that timed out or whose lease was lost.
    func cancel(_ runs: [RunID]) {
        guard !runs.isEmpty else { return }
        let tasks = state.withLock { state in
            runs.compactMap { id in
                if state.tasks[id] == nil { state.cancelled.insert(id) }
                return state.tasks[id]
            }
        }
        for task in tasks { task.cancel() }
    }

    private func run(
        _ id: RunID,
        _ delivery: Delivery,
        attempt: Int,
        deadline: ContinuousClock.Instant
    ) async -> AttemptEnd {
        guard let message = message(of: delivery) else { return .verdict(.reject(.missing)) }
        let context = HandlerContext(
            handler: registration.name,
            attempt: attempt,
            replayID: delivery.replayID,
            deadline: deadline
        )
        let (execute, registration) = (execute, registration)
        // Not a child task, as the deadline and lease loops must be able to cancel this one attempt. It never outlives this
        // call, and is cancelled with it.
        let task = Task { await execute(registration, delivery, message, context) }
        let isCancelled = state.withLock { state in
            state.tasks[id] = task
            return state.cancelled.remove(id) != nil
        }
        if isCancelled { task.cancel() }
        let end = await withTaskCancellationHandler {
            await task.value
        } onCancel: {
            task.cancel()
        }
        state.withLock { state in
            state.tasks[id] = nil
            state.cancelled.remove(id)
        }
        return end
    }

    private func message(of delivery: Delivery) -> UpstreamMessage? {
        switch delivery.content {
        case .stored(let message): message
        case .received(let copy):
            senderIDs.indices.contains(Int(copy.sender))
                ? UpstreamMessage(copy, senderID: senderIDs[Int(copy.sender)]) : nil
        case .missing: nil
        }
    }

    private func waitForChange(since generation: Int) async {
        await withCheckedContinuation { continuation in
            let hasChanged = state.withLock { state in
                if state.generation != generation { return true }
                state.waiters.append(continuation)
                return false
            }
            if hasChanged { continuation.resume() }
        }
    }
}

/// Runs one attempt; must end soon after cancellation.
package typealias DeliveryExecutor =
    @Sendable (HandlerRegistration, Delivery, UpstreamMessage, HandlerContext) async -> AttemptEnd
