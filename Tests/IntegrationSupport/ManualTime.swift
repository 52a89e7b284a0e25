import Synchronization

/// A time that only tests move.
package final class ManualTime: Sendable {
    private let time = Mutex(ContinuousClock.now)

    package init() {}

    package var instant: ContinuousClock.Instant { time.withLock { $0 } }

    package func pass(_ duration: Duration) { time.withLock { $0 += duration } }
}
