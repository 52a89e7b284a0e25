import Ingest
import MessageStore
import ServiceLifecycle
import Synchronization

// The parts of a worker as services, each with its own graceful shutdown.

/// Tells the supervisor that work begins; set once, by whoever starts last.
final class StartSignal: Sendable {
    private let supervisor = Mutex<Supervisor?>(nil)

    /// Sets the supervisor, before any service runs.
    func connect(_ supervisor: Supervisor) { self.supervisor.withLock { $0 = supervisor } }

    func set() { supervisor.withLock { $0 }?.started() }
}

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
        // If another service has failed, no batch will come that writers wait for.
        await withTaskCancellationHandler {
            await withGracefulShutdownHandler {
                await service.run()
            } onGracefulShutdown: {
                queue.finish()
            }
        } onCancel: {
            queue.finish()
        }
    }
}

/// Closes the writers' database sessions once the writers have ended.
struct StoreRunner: Service {
    let stores: [MessageStore]

    func run() async throws {
        try? await gracefulShutdown()
        await withDiscardingTaskGroup { group in
            for store in stores { group.addTask { await store.close() } }
        }
    }
}

/// A service that stays until shutdown reaches it, even if its work is done earlier.
///
/// Services are shut down one after the other, and a group takes one that ends during another's shutdown for a failure.
struct LastingService<Base: Service>: Service {
    let base: Base

    func run() async throws {
        try await base.run()
        try? await gracefulShutdown()
    }
}
