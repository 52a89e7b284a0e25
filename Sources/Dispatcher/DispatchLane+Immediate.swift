import Synchronization
import UpstreamKit
import Vocabulary

// Immediate handlers: many attempts begin and end together, in one task.
extension DispatchLane {
    /// Runs attempts until nothing more is to run, or until cancelled.
    func attemptsAtOnce(_ handler: any ImmediateHandler) async -> SlotEnd {
        while true {
            await settler.waitForRoom()
            let start = shared.clock.now()
            let (attempts, isStopping, generation) = begin(at: start)
            if attempts.isEmpty {
                if isStopping { return .stopped }
                await waitForChange(since: generation)
                continue
            }
            // Without an outline the message is gone.
            let messages = attempts.map { MessageOutline($0.delivery, attempt: $0.number) }
            handler.take(messages.compactMap(\.self), handler: settings.name)
            let ends = messages.map { AttemptEnd.verdict($0 == nil ? .reject(.missing) : .done) }
            finish(attempts, ends, since: start)
            if Task.isCancelled { return .cancelled }
        }
    }

    private func begin(at now: ContinuousClock.Instant) -> ([Attempt], isStopping: Bool, generation: Int) {
        state.withLock { state in
            var attempts: [Attempt] = []
            attempts.reserveCapacity(min(state.machine.waiting.count, settings.concurrency))
            while let attempt = state.machine.begin(now: now) { attempts.append(attempt) }
            return (attempts, state.machine.isStopping, state.generation)
        }
    }

    /// Settles attempts; those that are simply done, all at once.
    private func finish(_ attempts: [Attempt], _ ends: [AttemptEnd], since start: ContinuousClock.Instant) {
        let now = shared.clock.now()
        // One call took them all. Each gets its share, so that sums in metric and history are the elapsed time.
        let took = (now - start) / attempts.count
        let end = start + took
        let (done, others, wantsClaim) = state.withLock { state in
            var done: [Settlement] = []
            done.reserveCapacity(attempts.count)
            var others: [(index: Int, action: DispatchStateMachine.FinishAction)] = []
            for index in attempts.indices {
                let (id, random) = (attempts[index].id, shared.clock.random)
                let action = state.machine.finished(id, ends[index], now: now, random: random())
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
        report.attemptsDone(done.count, took: took)
        settler.submit(done, isUrgent: settings.isOrdered)
        for (index, action) in others { conclude(action, ends[index], attempts[index], from: start, to: end) }
        if wantsClaim { claims.set() }
    }
}

extension HandlerRegistration {
    var immediate: (any ImmediateHandler)? {
        guard case .handler(let handler) = body else { return nil }
        return handler as? any ImmediateHandler
    }
}
