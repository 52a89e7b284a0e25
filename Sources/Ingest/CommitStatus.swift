package import Logging
import Synchronization
package import Telemetry
package import Vocabulary

/// Tracks whether commits of all writers wait for a standby, for `/readyz`, metrics and log; thread-safe.
package final class CommitStatus: Sendable {
    private let metrics: Metrics?
    private let logger: Logger?
    /// The commits that wait for a standby, and since when there are any.
    private let waiting = Mutex<(count: Int, since: ContinuousClock.Instant?)>((0, nil))
    private let failure = Mutex<(at: ContinuousClock.Instant, text: String)?>(nil)
    private let warnings = Mutex<Set<String>>([])
    private let lastNotifyingFailure = Mutex<ContinuousClock.Instant?>(nil)
    private static let warningLimit = 50

    package init(metrics: Metrics? = nil, logger: Logger? = nil) {
        (self.metrics, self.logger) = (metrics, logger)
    }

    package var waitingForStandby: Int { waiting.withLock { $0.count } }

    /// Why commits do not proceed; nil if none waits for a standby.
    package var reason: String? {
        waiting.withLock { waiting in
            guard waiting.count > 0, let since = waiting.since else { return nil }
            let seconds = (ContinuousClock.now - since).components.seconds
            return "commits have waited \(seconds) s for a standby to confirm them"
        }
    }

    package func failed(_ error: StoreError) {
        failure.withLock { $0 = (.now, error.message) }
    }

    /// Why the last commit failed since then; nil if none did.
    package func failure(since start: ContinuousClock.Instant) -> String? {
        failure.withLock { failure in failure.flatMap { $0.at >= start ? $0.text : nil } }
    }

    /// Records that a commit waits for a standby; followed by one ``standbyWaitEnded()``.
    package func standbyWaitBegan() {
        let isFirst = waiting.withLock { waiting in
            waiting.count += 1
            guard waiting.count == 1 else { return false }
            waiting.since = .now
            return true
        }
        metrics?.commitsWaitingForStandby.add(1)
        guard isFirst else { return }
        logger?.event(
            .warning,
            .standbyAwaited,
            "commits are waiting for a standby's confirmation; nothing is acked meanwhile"
        )
    }

    /// Logs a server's warning that affects no commit, once per kind; no text if that may quote a row.
    package func warned(sqlState: String, routine: String, text: String?) {
        let isNew = warnings.withLock { $0.count < Self.warningLimit && $0.insert("\(sqlState) \(routine)").inserted }
        guard isNew else { return }
        logger?.event(
            .warning,
            .databaseWarning,
            "PostgreSQL warns while messages are committed; they are stored all the same",
            [
                .sqlstate: .string(sqlState), .routine: .string(routine),
                .error: .string(text ?? "PostgreSQL's log may tell more: the text may quote rows"),
            ]
        )
    }

    /// Logs, at most once a minute, that other workers were not woken.
    package func notifyingFailed(_ text: String) {
        let isDue = lastNotifyingFailure.withLock { last in
            if let last, ContinuousClock.now - last < .seconds(60) { return false }
            last = .now
            return true
        }
        guard isDue else { return }
        logger?.event(
            .warning,
            .notificationsUnavailable,
            "other workers can't be woken for new deliveries; they find them by polling",
            [.error: .string(text)]
        )
    }

    /// The wait has ended: confirmed, or cancelled.
    package func standbyWaitEnded() {
        let duration = waiting.withLock { waiting -> Duration? in
            waiting.count -= 1
            guard waiting.count == 0, let since = waiting.since else { return nil }
            waiting.since = nil
            return ContinuousClock.now - since
        }
        metrics?.commitsWaitingForStandby.add(-1)
        guard let duration else { return }
        logger?.event(
            .notice,
            .standbyWaitEnded,
            "commits no longer wait for a standby",
            [.durationSeconds: .double(duration / .seconds(1))]
        )
    }
}
