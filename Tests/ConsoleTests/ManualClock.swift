import Synchronization

/// A clock that a test moves.
final class ManualClock: Sendable {
    private let time = Mutex(ContinuousClock.now)

    /// The time it shows.
    var now: @Sendable () -> ContinuousClock.Instant { { self.time.withLock { $0 } } }

    /// Moves it on.
    func advance(_ duration: Duration) { time.withLock { $0 += duration } }
}
