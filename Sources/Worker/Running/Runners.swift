import Logging
import MessageStore
import NIOPosix
import Pipeline
package import ServiceLifecycle
import Synchronization
import Telemetry
import XMPPSession

// The parts of a worker as services, each with its own graceful shutdown.

/// Tells the supervisor that the worker's work begins; set once, by whoever begins it last.
final class StartSignal: Sendable {
    private let supervisor = Mutex<Supervisor?>(nil)

    /// Whom to tell; before any service runs.
    func connect(_ supervisor: Supervisor) { self.supervisor.withLock { $0 = supervisor } }

    func set() { supervisor.withLock { $0 }?.started() }
}

/// The supervisor: goes on to the end of every other service.
struct SupervisionRunner: Service {
    let supervisor: Supervisor

    func run() async {
        await cancelWhenGracefulShutdown { await supervisor.run() }
    }
}

/// The start of a worker that holds no connections.
struct StartRunner: Service {
    let monitor: DatabaseMonitor
    let dispatch: DispatchRunner?
    let started: StartSignal

    func run() async throws {
        await cancelWhenGracefulShutdown {
            // Others report a schema that is not current.
            guard (try? await monitor.waitUntilReady()) != nil else { return }
            await dispatch?.waitUntilSubscribed()
            if !Task.isCancelled { started.set() }
        }
    }
}

/// The database monitor: stops at once.
struct MonitorRunner: Service {
    let monitor: DatabaseMonitor

    func run() async {
        await cancelWhenGracefulShutdown { await monitor.run() }
    }
}

/// The writers: nothing is submitted any more when this is asked to stop, so they end once all that was read has committed.
struct IngestRunner: Service {
    let queue: IngestQueue
    let service: IngestService

    func run() async {
        // When another service has failed, no batch will come that writers wait for.
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

/// The writers' database sessions: closed once the writers have ended.
struct StoreRunner: Service {
    let stores: [MessageStore]

    func run() async throws {
        try? await gracefulShutdown()
        await withDiscardingTaskGroup { group in
            for store in stores { group.addTask { await store.close() } }
        }
    }
}

/// The connections of all senders: opened once the database is ready and this worker's handlers are subscribed.
struct ReceiveRunner: Service {
    let monitor: DatabaseMonitor
    let dispatch: DispatchRunner?
    let senders: [SenderSettings]
    let group: MultiThreadedEventLoopGroup
    let environment: Connection.Environment
    let started: StartSignal
    let logger: Logger

    func run() async throws {
        try await cancelWhenGracefulShutdown {
            do {
                try await monitor.waitUntilReady()
            } catch is CancellationError {
                return
            }
            await dispatch?.waitUntilSubscribed()
            guard !Task.isCancelled else { return }
            started.set()
            await withTaskGroup(of: Void.self) { tasks in
                for settings in senders {
                    var logger = logger
                    logger[.sender] = .string(settings.senderID)
                    let service = SenderService(
                        settings: settings,
                        group: group,
                        environment: environment,
                        logger: logger
                    )
                    tasks.addTask { await service.run() }
                }
            }
        }
    }
}

/// A service that stays until shutdown reaches it, also where its work is done before.
///
/// Services are shut down one after the other, and a group takes one that ends while another is being shut down for a
/// failure.
package struct LastingService<Base: Service>: Service {
    private let base: Base

    /// Runs `base`, then waits.
    package init(_ base: Base) { self.base = base }

    package func run() async throws {
        try await base.run()
        try? await gracefulShutdown()
    }
}
