/// Commits that a crash or a failover may still take back.
struct Journal: Sendable {
    private struct Commit: Sendable {
        let number: Int64
        let at: ContinuousClock.Instant
        /// What takes it back, in the order in which it was done.
        let inverses: [Change]
    }

    /// How long a commit that does not wait for the disk may stay in memory (three times `wal_writer_delay`).
    static let flushDelay = Duration.milliseconds(600)

    private var commits: [Commit] = []
    private(set) var last: Int64 = 0
    private var flushed: Int64 = 0
    private var replicated: Int64 = 0
    /// How far the standby is behind; nil without a standby.
    let lag: Duration?
    /// Since when the standby is connected; nil while it is away.
    private var connectedSince: ContinuousClock.Instant?

    init(lag: Duration?, now: ContinuousClock.Instant) {
        self.lag = lag
        connectedSince = lag == nil ? nil : now
    }

    /// Whether commits that waited for the disk may be taken back, too.
    var keepsEverything: Bool { lag != nil }

    mutating func commit(_ inverses: [Change], waitsForDisk: Bool, at now: ContinuousClock.Instant) -> Int64 {
        last += 1
        commits.append(Commit(number: last, at: now, inverses: inverses))
        if waitsForDisk { flushed = last }
        advance(to: now)
        return last
    }

    /// A commit that waited for the disk took all before it there.
    mutating func flush() { flushed = last }

    /// Whether the standby has confirmed a commit; true without a standby.
    mutating func isConfirmed(_ number: Int64, at now: ContinuousClock.Instant) -> Bool {
        guard lag != nil else { return true }
        advance(to: now)
        return replicated >= number
    }

    /// When the standby will confirm what has just been committed; nil while it is away.
    func confirmation(at now: ContinuousClock.Instant) -> ContinuousClock.Instant? {
        guard let lag, let connectedSince else { return nil }
        return max(commits.last?.at ?? now, connectedSince) + lag
    }

    mutating func setStandby(isConnected: Bool, at now: ContinuousClock.Instant) {
        guard lag != nil, isConnected != (connectedSince != nil) else { return }
        advance(to: now)
        connectedSince = isConnected ? now : nil
    }

    /// Takes out what a crash of the server loses: inverses, to be applied in this order.
    mutating func crash(at now: ContinuousClock.Instant) -> [Change] {
        advance(to: now)
        return takeBack(after: flushed)
    }

    /// Takes out what the standby that takes over lacks; it has so many more commits than it has confirmed.
    mutating func failOver(keeping more: Int64, at now: ContinuousClock.Instant) -> [Change] {
        advance(to: now)
        let kept = min(last, replicated + more)
        let lost = takeBack(after: kept)
        // What is left both servers have.
        (flushed, replicated, commits) = (last, last, [])
        if lag != nil { connectedSince = now }
        return lost
    }

    private mutating func takeBack(after kept: Int64) -> [Change] {
        let lost = commits.filter { $0.number > kept }
        commits.removeAll { $0.number > kept }
        // The log goes on from there: nobody waits for what is gone.
        (last, replicated) = (kept, min(replicated, kept))
        return lost.reversed().flatMap { $0.inverses.reversed() }
    }

    /// Lets the disk and the standby catch up, and forgets what is safe.
    private mutating func advance(to now: ContinuousClock.Instant) {
        for commit in commits {
            guard commit.at + Self.flushDelay <= now else { break }
            flushed = max(flushed, commit.number)
        }
        if let lag, let connectedSince {
            for commit in commits {
                guard max(commit.at, connectedSince) + lag <= now else { break }
                replicated = max(replicated, commit.number)
            }
        }
        let safeUpTo = lag == nil ? flushed : min(flushed, replicated)
        let safe = commits.firstIndex { $0.number > safeUpTo } ?? commits.count
        commits.removeFirst(safe)
    }
}
