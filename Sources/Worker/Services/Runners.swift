import Ingest
import Logging
import MessageStore
import NIOPosix
package import ServiceLifecycle
import Synchronization
import Telemetry
import XMPP
import XMPPSession

// The parts of a worker as services, each with its own graceful shutdown.

/// Tells the supervisor that work begins; set once, by whoever starts last.
final class StartSignal: Sendable {
    private let supervisor = Mutex<Supervisor?>(nil)

    /// Sets the supervisor, before any service runs.
    func connect(_ supervisor: Supervisor) { self.supervisor.withLock { $0 = supervisor } }

    func set() { supervisor.withLock { $0 }?.started() }
}

/// Runs the supervisor until every other service has ended.
struct SupervisionRunner: Service {
    let supervisor: Supervisor

    func run() async {
        await cancelWhenGracefulShutdown { await supervisor.run() }
    }
}

/// Signals the start of a worker without connections.
struct StartRunner: Service {
    let monitor: DatabaseMonitor
    let dispatch: DispatchRunner?
    let started: StartSignal

    func run() async throws {
        await cancelWhenGracefulShutdown {
            guard (try? await monitor.waitUntilReady()) != nil else { return }
            await dispatch?.waitUntilSubscribed()
            if !Task.isCancelled { started.set() }
        }
    }
}

/// Runs the database monitor, which stops at once.
struct MonitorRunner: Service {
    let monitor: DatabaseMonitor

    func run() async {
        await cancelWhenGracefulShutdown { await monitor.run() }
    }
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

/// Runs the connections of all senders, opened once the database is ready and this worker's handlers are subscribed.
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
                    logger[.sender] = .string(settings.stream.senderID)
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

/// A service that stays until shutdown reaches it, even if its work is done earlier.
///
/// Services are shut down one after the other, and a group takes one that ends during another's shutdown for a failure.
package struct LastingService<Base: Service>: Service {
    private let base: Base

    /// Runs `base`, then waits.
    package init(_ base: Base) { self.base = base }

    package func run() async throws {
        try await base.run()
        try? await gracefulShutdown()
    }
}
