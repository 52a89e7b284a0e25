import ServiceLifecycle
import Synchronization
import Vocabulary

/// Bounds the shutdown of a service that has nothing to finish but may wait for an unresponsive database.
///
/// Beyond the bound it is cancelled and abandoned; the process exits soon after.
struct BoundedShutdown<Wrapped: Service>: Service {
    let service: Wrapped
    /// Set if the bound was reached.
    let abandoned: AbandonedServices
    /// How long the shutdown may take while the service is idle.
    let bound: Duration
    /// Whether the service has nothing to lose; the bound does not apply while it has.
    let isIdle: @Sendable () -> Bool

    /// How often ``isIdle`` is polled during shutdown.
    private static var pollInterval: Duration { .milliseconds(50) }

    func run() async throws {
        // The first end counts.
        let end = Promise<Result<Void, any Error>>()
        // Not a child task, as a task group would wait for it however long it takes.
        let work = Task {
            do {
                try await service.run()
                end.fulfil(.success(()))
            } catch {
                end.fulfil(.failure(error))
            }
        }
        try await withTaskCancellationHandler {
            try await withGracefulShutdownHandler {
                try await end.value.get()
            } onGracefulShutdown: {
                giveUp(work, end)
            }
        } onCancel: {
            work.cancel()
            giveUp(work, end)
        }
    }

    private func giveUp(_ work: Task<Void, Never>, _ end: Promise<Result<Void, any Error>>) {
        Task {
            var idle = Duration.zero
            while !end.isFulfilled, idle < bound {
                try? await Task.sleep(for: Self.pollInterval)
                idle = isIdle() ? idle + Self.pollInterval : .zero
            }
            guard !end.isFulfilled else { return }
            work.cancel()
            abandoned.set()
            end.fulfil(.success(()))
        }
    }
}

/// Whether a service was abandoned during shutdown.
final class AbandonedServices: Sendable {
    private let flag = Atomic<Bool>(false)

    var isSet: Bool { flag.load(ordering: .relaxed) }

    func set() { flag.store(true, ordering: .relaxed) }
}
