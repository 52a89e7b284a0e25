import Dispatcher
import Glibc
import Handlers
import Logging
import MessageStore
import ServiceLifecycle
import Telemetry
import UpstreamConfiguration
import UpstreamKit
import Vocabulary

/// Runs the dispatcher: stops after ingest, lets running attempts end, and releases its leases (G7).
struct DispatchRunner: Service {
    let service: DispatchService
    private let store: PostgresDeliveryStore
    private let functions: FunctionCaller
    private let monitor: DatabaseMonitor

    /// Makes a dispatcher for these handlers; `log` gathers their lines.
    init(_ parts: WorkerParts, _ registrations: [HandlerRegistration], _ log: GatheredLog) {
        let configuration = parts.configuration
        let owner = Self.workerName
        let logger = parts.logger
        let isRecording = configuration.retention.attempts > .zero
        let recording = AttemptRecording(worker: owner, isWanted: isRecording) { error in
            logger.event(
                .warning,
                .attemptsUnrecorded,
                "cannot write the history of attempts: deliveries are settled without, retrying in a minute",
                [.sqlstate: .string(error.sqlState ?? ""), .error: .string(error.message)]
            )
        }
        let store = PostgresDeliveryStore(parts.database, worker: owner, recording: recording)
        let functions = FunctionCaller(parts.database, recording: recording)
        var settings = DispatchSettings()
        settings.lease = configuration.lease
        // Earlier steps (acks, closing streams) and later ones (cancelled handlers, leases) need time as well.
        settings.drain = configuration.shutdownGrace / 5
        settings.owner = owner
        settings.recordsAttempts = isRecording
        self.store = store
        self.functions = functions
        monitor = parts.monitor
        service = DispatchService(
            store: store,
            registrations: registrations,
            senderIDs: configuration.senders.map(\.senderID),
            settings: settings,
            metrics: parts.metrics,
            logger: logger,
            tracing: parts.tracing?.pipeline,
            flush: log.flush
        ) { registration, calls in
            guard case .function(let function, _) = registration.body else { return await registration.handle(calls) }
            // The call deletes the deliveries without the store's knowledge.
            defer {
                if registration.ordering == .device {
                    for call in calls {
                        let isReplayed = call.delivery.replayID != nil
                        store.freed(call.message.deviceKey, of: registration.name, isReplayed: isReplayed)
                    }
                }
            }
            return await functions.call(function, handler: registration.name, calls)
        }
    }

    func run() async throws {
        guard try await cancelWhenGracefulShutdown({ try await monitor.waitUntilReady() }) else { return }
        await withGracefulShutdownHandler {
            await service.run()
        } onGracefulShutdown: {
            service.beginShutdown()
        }
        // Closes the sessions of SQL handlers and of the dispatcher, which is idle by now.
        await functions.close()
        await store.close()
    }

    /// This process's name for people: host and process id.
    static var workerName: String { "\(hostName):\(getpid())" }

    static var hostName: String {
        var name = [CChar](repeating: 0, count: 256)
        guard gethostname(&name, name.count - 1) == 0 else { return "worker" }
        return String(decoding: name.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}
