package import Ingest

/// Checks for `/readyz` that received messages are being committed.
package enum CommitChecks {
    /// The longest wait of a message: longer than a failover, shorter than the time after which streams withdraw.
    package static let longestWait = Duration.seconds(5)

    package static func checks(
        queue: IngestQueue,
        status: CommitStatus,
        now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }
    ) -> [ReadinessCheck] {
        let commits = ReadinessCheck(name: "commits") {
            guard let oldest = queue.oldest else { return .ready }
            let waiting = now() - oldest
            guard waiting > longestWait else { return .ready }
            let reason = status.failure(since: oldest).map { ": " + $0 } ?? ""
            return .notReady("messages have been waiting to be committed for \(waiting.components.seconds) s" + reason)
        }
        let standby = ReadinessCheck(name: "standby") { status.reason.map { .notReady($0) } ?? .ready }
        return [commits, standby]
    }
}
