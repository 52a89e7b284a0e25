import Logging
import ServiceLifecycle
import Synchronization

/// Bounds how long a service's shutdown takes.
///
/// For services that have nothing to finish but may wait for an unresponsive database. Beyond the bound the service is
/// cancelled and abandoned, and the others continue shutting down; the process exits soon after.
struct BoundedShutdown<Wrapped: Service>: Service {
    private let service: Wrapped
    private let abandoned: AbandonedServices
    private let bound: Duration
    private let isIdle: @Sendable () -> Bool

    /// How often ``isIdle`` is polled during shutdown.
    private static var pollInterval: Duration { .milliseconds(50) }

    /// Bounds the end of a service.
    ///
    /// - Parameters:
    ///   - service: The service.
    ///   - abandoned: Set if the bound was reached.
    ///   - bound: How long the shutdown may take while the service is idle.
    ///   - isIdle: Whether the service has nothing to lose; the bound does not apply while it has.
    init(
        service: Wrapped,
        _ abandoned: AbandonedServices,
        bound: Duration,
        isIdle: @escaping @Sendable () -> Bool = { true }
    ) {
        self.service = service
        self.abandoned = abandoned
        self.bound = bound
        self.isIdle = isIdle
    }

    func run() async throws {
        let end = Ending()
        // Not a child task, as a task group would wait for it however long it takes.
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
                try? await Task.sleep(for: Self.pollInterval)
                idle = isIdle() ? idle + Self.pollInterval : .zero
            }
            guard !end.isSet else { return }
            work.cancel()
            abandoned.set()
            end.set(.success(()))
        }
    }
}

/// Whether a service was abandoned during shutdown.
final class AbandonedServices: Sendable {
    private let flag = Atomic<Bool>(false)

    var isSet: Bool { flag.load(ordering: .relaxed) }

    func set() { flag.store(true, ordering: .relaxed) }
}

/// The end of a service; the first result counts.
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

    /// Awaited by one task.
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
