import Synchronization
import UpstreamKit
import Vocabulary

// Immediate handlers: many attempts begin and end together, in one task.
extension DispatchLane {
    private typealias Attempt = DispatchStateMachine.Attempt

    /// Runs attempts until nothing more is to run, or until cancelled.
    func attemptsAtOnce(_ handler: any ImmediateHandler, _ settler: DispatchSettler) async -> SlotEnd {
        while true {
            await settler.waitForRoom(index)
            let start = clock.now()
            let (attempts, isStopping, generation) = begin(at: start)
            if attempts.isEmpty {
                if isStopping { return .stopped }
                await waitForChange(since: generation)
                continue
            }
            // Without an outline the message is gone.
            let messages = attempts.map { MessageOutline($0.delivery, attempt: $0.number) }
            handler.take(messages.compactMap(\.self), handler: registration.name)
            let ends = messages.map { AttemptEnd.verdict($0 == nil ? .reject(.missing) : .done) }
            ended(attempts, ends, since: start, settler)
            if Task.isCancelled { return .cancelled }
        }
    }

    /// Begins as many attempts as may begin now.
    private func begin(at now: ContinuousClock.Instant) -> ([Attempt], isStopping: Bool, generation: Int) {
        state.withLock { state in
            var attempts: [Attempt] = []
            attempts.reserveCapacity(min(state.machine.waiting.count, settings.concurrency))
            while let attempt = state.machine.begin(now: now) { attempts.append(attempt) }
            return (attempts, state.machine.mode == .stopping, state.generation)
        }
    }

    /// Settles attempts; those that are simply done, all at once.
    private func ended(
        _ attempts: [Attempt],
        _ ends: [AttemptEnd],
        since start: ContinuousClock.Instant,
        _ settler: DispatchSettler
    ) {
        let now = clock.now()
        // One call took them all. Each gets its share, so that the sums in the metric and in the history are the
        // elapsed time.
        let took = (now - start) / attempts.count
        let end = start + took
        let (done, others, wantsClaim) = state.withLock { state in
            var done: [Settlement] = []
            done.reserveCapacity(attempts.count)
            var others: [(index: Int, action: DispatchStateMachine.FinishAction)] = []
            for index in attempts.indices {
                let action = state.machine.finished(attempts[index].id, ends[index], now: now, random: clock.random())
                if action.ending == .done, action.transition == nil, !attempts[index].delivery.isSuspect,
                    let settlement = settlement(of: action, attempts[index].delivery, from: start, to: end)
                {
                    done.append(settlement)
                } else {
                    others.append((index, action))
                }
            }
            state.generation += 1
            return (done, others, state.machine.wantsClaim(now: now))
        }
        report.attemptsDone(done.count, took: took, index)
        settler.submit(done, lane: index, isUrgent: settings.isOrdered)
        for (index, action) in others {
            let attempt = attempts[index]
            conclude(action, ends[index], attempt.delivery, attempt: attempt.number, from: start, to: end, settler)
        }
        if wantsClaim { claims.set() }
    }
}

extension HandlerRegistration {
    /// Its handler, if that is immediate.
    var immediate: (any ImmediateHandler)? {
        guard case .handler(let handler) = body else { return nil }
        return handler as? any ImmediateHandler
    }
}

extension LaneSettings {
    /// The most messages in one call of an immediate handler.
    static let mostAtOnce = 64

    /// The settings of an immediate handler: one task gives it many messages, whatever its concurrency.
    static func immediate(_ registration: HandlerRegistration, _ dispatch: DispatchSettings) -> LaneSettings {
        var settings = LaneSettings(registration, dispatch)
        (settings.concurrency, settings.slots) = (mostAtOnce, 1)
        return settings
    }
}
