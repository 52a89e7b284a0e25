import Vocabulary

// Deadlines of attempts, and leases to be extended.
extension DispatchStateMachine {
    /// Attempts to cancel because they timed out; each is returned once.
    package mutating func overdue(now: ContinuousClock.Instant) -> [RunID] {
        var overdue: [RunID] = []
        for (id, run) in running where run.timedOut == nil && now >= run.deadline {
            running[id]?.timedOut = FixedInstant(now)
            overdue.append(id)
        }
        return overdue
    }

    /// The number of attempts that continue long after their cancellation.
    package func hanging(now: ContinuousClock.Instant) -> Int {
        running.values.count { hangs($0, now: now) }
    }

    /// Leases to extend; a hanging attempt's is left to expire, so that another worker can take over its delivery.
    package func leasesToExtend(now: ContinuousClock.Instant) -> [LeaseReference] {
        let soon = now + settings.dispatch.lease * 2 / 3
        var references = waiting.references { $0.lease.deadline <= soon && $0.lease.deadline > now }
        for run in running.values where run.delivery.lease.deadline <= soon && !run.isLost && !hangs(run, now: now) {
            references.append(run.delivery.reference)
        }
        return references
    }

    /// Takes the table's answer to ``leasesToExtend(now:)``; returns attempts to cancel, as their lease was lost.
    package mutating func extended(
        _ asked: [LeaseReference],
        held: Set<LeaseReference>,
        until end: ContinuousClock.Instant
    ) -> [RunID] {
        let lost = Set(asked).subtracting(held)
        waiting.extend(held, lost: lost, until: end)
        var cancelled: [RunID] = []
        for (id, run) in running {
            if held.contains(run.delivery.reference) {
                running[id]?.delivery.lease.deadline = end
            } else if lost.contains(run.delivery.reference), !run.isLost {
                running[id]?.isLost = true
                cancelled.append(id)
            }
        }
        return cancelled
    }

    private func hangs(_ run: Run, now: ContinuousClock.Instant) -> Bool {
        // From its cancellation on: a worker that was frozen meanwhile cancels it late.
        run.timedOut.map { now >= $0.wrappedValue + settings.dispatch.hangGrace } ?? false
    }
}

// Suspects: deliveries over which several workers have died; one of them may be the cause. After two unclean ends
// everything in hand is suspect, and hardly any of it is guilty. So the first is taken alone, and twice as many each
// time that all of them did no harm. If the worker dies over several, each of these is alone from then on: only the
// guilty one is held by a worker that dies again, and set aside.
extension DispatchStateMachine {
    /// Whether a suspect waits or runs here.
    package var hasSuspect: Bool { waiting.suspects > 0 || running.values.contains(where: \.delivery.isSuspect) }

    /// The claims of suspects to make now, until one finds some; none while one waits or runs here.
    package func suspectClaims(like request: ClaimRequest) -> [ClaimRequest] {
        guard !hasSuspect else { return [] }
        var alone = request
        alone.isForSuspects = true
        alone.limit = 1
        guard suspectsAtOnce > 1 else { return [alone] }
        var several = alone
        several.limit = suspectsAtOnce
        several.mostCrashes = settings.suspectFrom
        return [several, alone]
    }

    package mutating func foundNoSuspects() { suspectsAtOnce = 1 }

    /// Records that a suspect has ended without killing the worker.
    mutating func suspectEnded() {
        if !hasSuspect { suspectsAtOnce = min(suspectsAtOnce * 2, settings.dispatch.suspectsAtOnce) }
    }
}
