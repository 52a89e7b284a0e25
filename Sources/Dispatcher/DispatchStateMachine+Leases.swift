// Deadlines of attempts, and leases to be extended.
extension DispatchStateMachine {
    /// Attempts to cancel because they timed out; each is returned once.
    package mutating func overdue(now: ContinuousClock.Instant) -> [RunID] {
        var overdue: [RunID] = []
        for (id, run) in running where !run.isTimedOut && now >= run.deadline {
            running[id]?.isTimedOut = true
            overdue.append(id)
        }
        return overdue
    }

    /// The number of attempts that continue long after their cancellation.
    package func hanging(now: ContinuousClock.Instant) -> Int {
        running.values.count { hangs($0, now: now) }
    }

    /// Leases that need to be extended.
    ///
    /// A hanging attempt's lease is left to expire, so that another worker can take over its delivery.
    package func leasesToExtend(now: ContinuousClock.Instant) -> [LeaseReference] {
        let soon = now + settings.dispatch.lease * 2 / 3
        var references = waiting.references { $0.lease.deadline <= soon && $0.lease.deadline > now }
        for run in running.values where run.leaseEnd <= soon && !run.isLost && !hangs(run, now: now) {
            references.append(run.reference)
        }
        return references
    }

    /// Takes the table's answer to ``leasesToExtend(now:)``.
    ///
    /// - Parameters:
    ///   - asked: The leases to extend.
    ///   - held: Those of them that are still ours.
    ///   - end: When these end now.
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
}
