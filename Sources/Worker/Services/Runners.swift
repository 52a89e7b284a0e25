import Ingest
import MessageStore
import ServiceLifecycle
import Vocabulary

// The parts of a worker as services, each with its own graceful shutdown.

/// Work that shutdown cancels, as it has nothing to finish.
struct UntilShutdown: Service {
    private let work: @Sendable () async throws -> Void

    init(_ work: @escaping @Sendable () async throws -> Void) { self.work = work }

    func run() async throws { try await cancelWhenGracefulShutdown(work) }
}

/// Runs the writers: nothing is submitted after they are asked to stop, so they end once everything read has committed.
struct IngestRunner: Service {
    let queue: IngestQueue
    let service: IngestService

    func run() async {
        // Cancelled if another service has failed: no batch will come that writers wait for.
        await withTaskCancellationOrGracefulShutdownHandler {
            await service.run()
        } onCancelOrGracefulShutdown: {
            queue.finish()
        }
    }
}

/// Closes the writers' database sessions once the writers have ended.
struct StoreRunner: Service {
    let stores: [MessageStore]
    let bell: DeliveryBell

    func run() async throws {
        await withDiscardingTaskGroup { group in
            group.addTask { await bell.run() }
            try? await gracefulShutdown()
            bell.finish()
            for store in stores { group.addTask { await store.close() } }
        }
    }
}

/// Closes the database session of the archives' readers once they have ended.
struct ArchiveRunner: Service {
    let points: ArchivePointStore

    func run() async throws {
        try? await gracefulShutdown()
        await points.close()
    }
}

/// A service that stays until shutdown reaches it, even if its work is done earlier.
///
/// Services are shut down one after the other, and a group takes one that ends during another's shutdown for a failure.
struct LastingService: Service {
    let base: any Service

    func run() async throws {
        try await base.run()
        try? await gracefulShutdown()
    }
}

/// Bounds the shutdown of a service that has nothing to finish but may wait for an unresponsive database.
///
/// Beyond the bound it is cancelled and abandoned; the process exits soon after.
struct BoundedShutdown<Wrapped: Service>: Service {
    let service: Wrapped
    /// Fulfilled if the bound was reached.
    let abandoned: Promise<Void>
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
            abandoned.fulfil()
            end.fulfil(.success(()))
        }
    }
}
