package import Pipeline

/// Whether received messages are being committed, for `/readyz`.
package enum CommitChecks {
    /// The worker is not ready once a message has waited for longer than this.
    ///
    /// Longer than a failover that goes well; shorter than the time after which streams withdraw their presence.
    package static let longestWait = Duration.seconds(5)

    /// The checks over a worker's queue and writers.
    ///
    /// - Parameters:
    ///   - queue: Where messages wait.
    ///   - status: What commits wait for.
    ///   - now: The monotonic clock.
    /// - Returns: `commits` and `standby`.
    package static func checks(
        queue: IngestQueue,
        status: CommitStatus,
        now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }
    ) -> [ReadinessCheck] {
        let commits = ReadinessCheck("commits") {
            guard let oldest = queue.oldest else { return .ready }
            let waiting = now() - oldest
            guard waiting > longestWait else { return .ready }
            let reason = status.failure(since: oldest).map { ": " + $0 } ?? ""
            return .notReady("messages have been waiting to be committed for \(waiting.components.seconds) s" + reason)
        }
        let standby = ReadinessCheck("standby") { status.reason.map { .notReady($0) } ?? .ready }
        return [commits, standby]
    }
}
