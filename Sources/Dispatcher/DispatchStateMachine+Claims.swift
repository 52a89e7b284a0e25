// How much to claim. Replayed deliveries have room of their own, so that those that wait hold up no claim of live ones.
extension DispatchStateMachine {
    /// How many deliveries to claim now; 0 without room, or while the handler is paused or its breaker open.
    ///
    /// For a handler with a rate, no more than may begin at once, and with a limit over all workers, about as much as
    /// may run at once: the rest waits in the table, not under a lease of this worker.
    package func claimLimit(now: ContinuousClock.Instant) -> Int {
        let most = settings.dispatch.waitingBytes
        let hasBytes = (most - waiting.claimedBytes) * 2 >= most - waiting.claimedReplayedBytes
        let room = claimRoom(beside: waiting.claimed - waiting.claimedReplayed, hasBytes: hasBytes, now: now)
        return limited(room, beside: waiting.count - waiting.claimedReplayed, now: now)
    }

    /// How many of them may give way to live ones.
    ///
    /// For a handler with a rate, no more than begin soon: while these wait, no live ones may be claimed in their place.
    package func replayedLimit(now: ContinuousClock.Instant) -> Int {
        let hasBytes = replayedBytes > 0 && waiting.claimedReplayedBytes * 4 <= settings.dispatch.waitingBytes
        let room = claimRoom(beside: waiting.claimedReplayed, hasBytes: hasBytes, now: now)
        let allowed = limited(room, beside: waiting.count, now: now)
        guard let budget else { return allowed }
        return min(allowed, max(0, max(settings.concurrency, budget.portion) - waiting.claimedReplayed))
    }

    /// The room beside so many claimed ones; small claims cost as much as large ones, so half of the limit must be free.
    private func claimRoom(beside claimed: Int, hasBytes: Bool, now: ContinuousClock.Instant) -> Int {
        guard mode == .active else { return 0 }
        switch breaker.admission(now: now) {
        case .refused: return 0
        case .probe: return waiting.isEmpty ? 1 : 0
        case .pass:
            let room = limit - claimed
            return room * 2 >= limit && hasBytes ? min(room, 500) : 0
        }
    }

    private func limited(_ room: Int, beside others: Int, now: ContinuousClock.Instant) -> Int {
        var allowed = room
        if let share {
            let calls = share.calls(most: settings.calls, now: now)
            allowed = min(allowed, max(0, 2 * calls * settings.batch - running.count - others))
        }
        guard let budget else { return allowed }
        let budgeted = budget.allowed(now: now) - waiting.count
        return budgeted >= budget.portion ? min(budgeted, allowed) : 0
    }

    /// About how many bytes may be claimed now: at most half of the limit, as reading takes twice as much.
    package var claimBytes: Int {
        let most = settings.dispatch.waitingBytes
        return min(most / 2, most - waiting.claimedBytes)
    }

    /// About how many bytes of replayed deliveries may be claimed beside these.
    package var replayedBytes: Int {
        let most = settings.dispatch.waitingBytes
        return min(most / 2 - waiting.claimedReplayedBytes, most - waiting.claimedBytes - claimBytes)
    }

    /// How many replayed deliveries a claim takes though live ones fill it: they get their turns.
    package var replayedOwed: Int { replay.owed }

    func wantsClaim(now: ContinuousClock.Instant) -> Bool {
        guard claimLimit(now: now) > 0 else { return false }
        return hasMore || hasArrived || (replay.hasMore && replayedLimit(now: now) > 0)
    }
}
