import Logging
import ServiceLifecycle
import Synchronization

/// A service that may take no longer than a bound to end, once it is asked to.
///
/// For those that keep no promise on the way down: what they wait for is a database that may never answer. Beyond the bound
/// the service is cancelled and left behind, and the others go on to end; the process ends soon after.
struct BoundedEnd<Wrapped: Service>: Service {
    private let service: Wrapped
    private let leftBehind: LeftBehind
    private let bound: Duration
    private let isIdle: @Sendable () -> Bool

    /// How often ``isIdle`` is asked once the service is to end.
    private static var step: Duration { .milliseconds(50) }

    /// Bounds the end of a service.
    ///
    /// - Parameters:
    ///   - service: The service.
    ///   - leftBehind: Is told where the bound was reached.
    ///   - bound: How long it may take.
    ///   - isIdle: Whether the bound holds at present: while there is something to lose, the service may take its time.
    init(
        service: Wrapped,
        _ leftBehind: LeftBehind,
        bound: Duration,
        isIdle: @escaping @Sendable () -> Bool = { true }
    ) {
        self.service = service
        self.leftBehind = leftBehind
        self.bound = bound
        self.isIdle = isIdle
    }

    func run() async throws {
        let end = Ending()
        // No child task: what this waits for can't be waited for.
        let work = Task {
            do {
                try await service.run()
                end.set(.success(()))
            } catch {
                end.set(.failure(error))
            }
        }
        try await withTaskCancellationHandler {
            try await withGracefulShutdownHandler {
                try await end.value
            } onGracefulShutdown: {
                giveUp(work, end)
            }
        } onCancel: {
            work.cancel()
            giveUp(work, end)
        }
    }

    private func giveUp(_ work: Task<Void, Never>, _ end: Ending) {
        Task {
            var idle = Duration.zero
            while !end.isSet, idle < bound {
                try? await Task.sleep(for: Self.step)
                idle = isIdle() ? idle + Self.step : .zero
            }
            guard !end.isSet else { return }
            work.cancel()
            leftBehind.set()
            end.set(.success(()))
        }
    }
}

/// Whether a part of the worker was left behind.
final class LeftBehind: Sendable {
    private let flag = Atomic<Bool>(false)

    var isSet: Bool { flag.load(ordering: .relaxed) }

    func set() { flag.store(true, ordering: .relaxed) }
}

/// How a service ended: what is set first counts.
private final class Ending: Sendable {
    private struct State {
        var result: Result<Void, any Error>?
        var waiter: CheckedContinuation<Void, any Error>?
    }

    private let state = Mutex(State())

    var isSet: Bool { state.withLock { $0.result != nil } }

    func set(_ result: Result<Void, any Error>) {
        let waiter = state.withLock { state in
            guard state.result == nil else { return nil as CheckedContinuation<Void, any Error>? }
            state.result = result
            return state.waiter.take()
        }
        waiter?.resume(with: result)
    }

    /// For one task.
    var value: Void {
        get async throws {
            try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
                let result = state.withLock { state in
                    if state.result == nil { state.waiter = continuation }
                    return state.result
                }
                if let result { continuation.resume(with: result) }
            }
        }
    }
}
