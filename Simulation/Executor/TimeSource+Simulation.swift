import Vocabulary

extension Scheduler {
    /// The monotonic clock, which is the machine's: all processes share it.
    ///
    /// It does not begin at 0, which the worker's code takes for never.
    var monotonic: MonotonicTime { MonotonicTime(nanoseconds: now &+ 1_000_000_000_000) }

    /// A clock on virtual time: a sleep belongs to the process that sleeps.
    func timeSource(_ random: RandomSource) -> TimeSource {
        let start = ContinuousClock.now
        return TimeSource(
            now: { start + .nanoseconds(Int64(self.now)) },
            sleep: { try await self.sleep($0) },
            random: { random.fraction() }
        )
    }

    private func sleep(_ duration: Duration) async throws {
        let sleeper = Sleeper()
        try await withTaskCancellationHandler {
            try await withUnsafeThrowingContinuation { (continuation: UnsafeContinuation<Void, any Error>) in
                guard !Task.isCancelled else { return continuation.resume(throwing: CancellationError()) }
                sleeper.continuation = continuation
                sleeper.timer = after(duration) { sleeper.continuation.take()?.resume() }
            }
        } onCancel: {
            sleeper.timer?.cancel()
            sleeper.continuation.take()?.resume(throwing: CancellationError())
        }
    }

    // Sendable: on the simulation's one thread.
    private final class Sleeper: @unchecked Sendable {
        var continuation: UnsafeContinuation<Void, any Error>?
        var timer: Timer?
    }
}

/// Lends a value to a closure that must be Sendable, on the simulation's one thread.
struct Unchecked<Value>: @unchecked Sendable {
    var value: Value

    init(_ value: Value) { self.value = value }
}
