import Synchronization
import Vocabulary

/// A clock that goes on to the next end of a sleep whenever nothing else is to be done.
///
/// "Nothing else" is guessed: by a real pause, which is short, as everything here is in memory.
final class VirtualTime: Sendable {
    private struct State {
        var now: ContinuousClock.Instant
        var sleepers: [(until: ContinuousClock.Instant, number: Int, wake: CheckedContinuation<Void, any Error>)] = []
        var last = 0
        /// The clock stands while fewer sleep, until this real time.
        var least = 1
        var standsUntil = ContinuousClock.now
    }

    private let state = Mutex(State(now: .now))

    var now: ContinuousClock.Instant { state.withLock(\.now) }

    /// How many sleep.
    var sleeping: Int { state.withLock(\.sleepers.count) }

    var source: TimeSource {
        TimeSource(now: { self.now }, sleep: { try await self.sleep($0) }, random: { 0.5 })
    }

    /// Lets the clock stand until this many sleep; for ten real seconds at most, as nobody may.
    func stand(until count: Int) { state.withLock { ($0.least, $0.standsUntil) = (count, .now + .seconds(10)) } }

    func advance(by duration: Duration) { state.withLock { $0.now += duration } }

    /// Moves the clock while the body runs.
    func run<T: Sendable>(_ body: @Sendable () async throws -> T) async throws -> T {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                while !Task.isCancelled {
                    try? await Task.sleep(for: .milliseconds(2))
                    self.step()
                }
            }
            defer { group.cancelAll() }
            return try await body()
        }
    }

    private func step() {
        let next = state.withLock { state in
            guard state.sleepers.count >= state.least || state.standsUntil < .now else {
                return nil as CheckedContinuation<Void, any Error>?
            }
            state.least = 1
            let first = state.sleepers.indices.min {
                (state.sleepers[$0].until, state.sleepers[$0].number) < (
                    state.sleepers[$1].until, state.sleepers[$1].number
                )
            }
            // What sleeps for long is woken by ``advance(by:)``.
            guard let first, state.sleepers[first].until - state.now < .seconds(600) else {
                return nil as CheckedContinuation<Void, any Error>?
            }
            let sleeper = state.sleepers.remove(at: first)
            state.now = max(state.now, sleeper.until)
            return sleeper.wake
        }
        next?.resume()
    }

    private func sleep(_ duration: Duration) async throws {
        let number = state.withLock { state in
            state.last += 1
            return state.last
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let isCancelled = state.withLock { state in
                    guard !Task.isCancelled else { return true }
                    state.sleepers.append((state.now + duration, number, continuation))
                    return false
                }
                if isCancelled { continuation.resume(throwing: CancellationError()) }
            }
        } onCancel: {
            let cancelled = state.withLock { state in
                state.sleepers.firstIndex { $0.number == number }.map { state.sleepers.remove(at: $0).wake }
            }
            cancelled?.resume(throwing: CancellationError())
        }
    }
}
