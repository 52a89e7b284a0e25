import Logging
import MessageStore
import NIOPosix
import Pipeline
import ServiceLifecycle
import Telemetry
import XMPPSession

// The parts of a worker as services: each knows what "stop in order" means for its part.

/// The database monitor: stops at once.
struct MonitorRunner: Service {
    let monitor: DatabaseMonitor

    func run() async {
        await cancelWhenGracefulShutdown { await monitor.run() }
    }
}

/// The writers: no more is submitted once this is asked to stop, so they end when all that was read has committed.
struct IngestRunner: Service {
    let queue: IngestQueue
    let service: IngestService

    func run() async {
        // Cancelled, because another part has failed, the writers would wait for a batch that nobody brings any more.
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

/// The writers' sessions: closed once the writers have ended, which a session that hangs may not hold up.
struct StoreRunner: Service {
    let stores: [MessageStore]

    func run() async throws {
        try? await gracefulShutdown()
        await withDiscardingTaskGroup { group in
            for store in stores { group.addTask { await store.close() } }
        }
    }
}

/// The connections of all senders: they begin once the database can take messages and this worker's own handlers are
/// subscribed, and end in order.
struct ReceiveRunner: Service {
    let monitor: DatabaseMonitor
    let dispatch: DispatchRunner?
    let senders: [SenderSettings]
    let group: MultiThreadedEventLoopGroup
    let environment: Connection.Environment
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
