package import Logging
import Synchronization
package import Telemetry

/// What commits wait for at present, for `/readyz`, the metrics and the log.
///
/// One value for all writers of a process; safe from any thread.
package final class CommitStatus: Sendable {
    private struct Waiting {
        var count = 0
        var since: ContinuousClock.Instant?
    }

    private let metrics: Metrics?
    private let logger: Logger?
    private let waiting = Mutex(Waiting())

    /// A status that nothing waits in.
    ///
    /// - Parameters:
    ///   - metrics: Where the number of waiting commits is shown.
    ///   - logger: Is told when commits begin to wait, and when none waits any more.
    package init(metrics: Metrics? = nil, logger: Logger? = nil) {
        self.metrics = metrics
        self.logger = logger
    }

    /// Commits that have been found to wait for a standby's confirmation.
    package var waitingForStandby: Int { waiting.withLock { $0.count } }

    /// Why nothing commits, for people; nil where no commit waits for a standby.
    package var reason: String? {
        waiting.withLock { waiting in
            guard waiting.count > 0, let since = waiting.since else { return nil }
            let seconds = (ContinuousClock.now - since).components.seconds
            return "commits have waited \(seconds) s for a standby to confirm them"
        }
    }

    /// A commit was found to wait for a standby.
    ///
    /// Followed by one ``standbyWaitEnded()``.
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
            "commits wait for a standby to confirm them; nothing is acked until it does"
        )
    }

    /// The commit waits no more: it was confirmed, or the wait was broken off.
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
            "no commit waits for a standby any more",
            [.durationSeconds: .double(duration / .seconds(1))]
        )
    }
}
