package import Logging
import MessageStore
import NIOCore
import NIOPosix
import Pipeline
import Postgres
import ServiceLifecycle
import TLSWire
package import Telemetry
import XMLWire
import XMPPSession

/// The composition root: makes every part of a worker from its configuration, and runs them.
///
/// The order of the parts is the order of their dependence; they stop in the opposite one, so that connections still
/// find the writers at work when they say goodbye (G7).
package final class WorkerRuntime: Sendable {
    /// What counts.
    package let metrics: Metrics
    /// What `/readyz` tells.
    package let readiness: Readiness

    private let configuration: WorkerConfiguration
    private let logger: Logger
    private let senders: [SenderSettings]
    private let stores: [MessageStore]
    private let monitor: DatabaseMonitor
    private let ingest = IngestQueue()
    private let group: MultiThreadedEventLoopGroup
    private let services: ServiceGroup

    /// Makes a worker; nothing is connected yet.
    ///
    /// - Parameters:
    ///   - configuration: A valid configuration.
    ///   - version: For `upstream_build_info`.
    ///   - logger: The process's logger.
    ///   - onListening: Is told the admin endpoints' port.
    /// - Throws: ``WorkerError/unusable(_:)``
    package init(
        configuration: WorkerConfiguration,
        version: String,
        logger: Logger,
        onListening: @escaping @Sendable (Int) async -> Void = { _ in }
    ) throws(WorkerError) {
        self.configuration = configuration
        self.logger = logger
        senders = try Self.senders(configuration)
        let settings = try Self.database(configuration)
        let names = configuration.senders.map(\.senderID)
        metrics = Metrics(
            senders: names,
            categories: configuration.categories,
            handlers: configuration.handlers.map(\.name),
            version: version
        )
        stores = (0..<configuration.database.writers).map { _ in MessageStore(settings, senders: names) }
        let monitor = DatabaseMonitor(settings, logger: logger)
        self.monitor = monitor
        readiness = Readiness(Self.checks(names, metrics, monitor))
        // The receive path costs a few microseconds a message: the cores are PostgreSQL's.
        group = MultiThreadedEventLoopGroup(numberOfThreads: max(1, System.coreCount / 4))
        services = Self.services(
            admin: AdminServer(
                configuration.admin,
                metrics: metrics,
                readiness: readiness,
                logger: logger,
                onListening: onListening
            ),
            monitor: monitor,
            ingest: IngestRunner(
                queue: ingest,
                service: IngestService(
                    queue: ingest,
                    writers: stores,
                    batchLimit: configuration.database.batchLimit,
                    metrics: metrics,
                    logger: logger
                ),
                stores: stores
            ),
            receive: ReceiveRunner(
                monitor: monitor,
                senders: senders,
                group: group,
                environment: .init(ingest: ingest, clock: ReceiptClock(), metrics: metrics),
                logger: logger
            ),
            logger: logger
        )
    }

    /// Runs until ``shutDown()``, or until a part fails for good.
    ///
    /// - Throws: ``WorkerError``
    package func run() async throws {
        defer { group.shutdownGracefully { _ in } }
        logger.event(.info, .starting, "starting", [.version: .string(metrics.version)])
        do {
            try await services.run()
        } catch let error as WorkerError {
            throw error
        } catch {
            throw WorkerError.failed("\(error)")
        }
        logger.event(.info, .stopped, "stopped")
    }

    /// Begins the orderly way down; ``run()`` returns at its end.
    package func shutDown() async {
        readiness.drain()
        await services.triggerGracefulShutdown()
    }

    private static func senders(_ configuration: WorkerConfiguration) throws(WorkerError) -> [SenderSettings] {
        let limits = StreamLimits(configuration)
        var settings: [SenderSettings] = []
        var problems: [String] = []
        for (index, sender) in configuration.senders.enumerated() {
            do throws(TLSError) {
                settings.append(try SenderSettings(sender, index: index, limits: limits))
            } catch {
                problems.append("senders.\(index).tls: \(error.message)")
            }
        }
        guard problems.isEmpty else { throw .unusable(problems) }
        return settings
    }

    private static func database(_ configuration: WorkerConfiguration) throws(WorkerError) -> PostgresSettings {
        do throws(PostgresError) {
            return try PostgresSettings(url: configuration.database.url)
        } catch {
            throw .unusable(["database.url: \(error.message)"])
        }
    }

    private static func checks(_ senders: [String], _ metrics: Metrics, _ monitor: DatabaseMonitor) -> [ReadinessCheck]
    {
        let streams = senders.enumerated().map { index, name in
            ReadinessCheck("sender-\(name)") {
                metrics.connections(sender: index, state: .bound).value > 0 ? .ready : .notReady("no stream is bound")
            }
        }
        return [ReadinessCheck("database") { monitor.state }] + streams
    }

    private static func services(
        admin: AdminServer?,
        monitor: DatabaseMonitor,
        ingest: IngestRunner,
        receive: ReceiveRunner,
        logger: Logger
    ) -> ServiceGroup {
        var list: [any Service] = []
        if let admin { list.append(admin) }
        list += [MonitorRunner(monitor: monitor), ingest, receive]
        var quiet = logger
        quiet.logLevel = .error
        return ServiceGroup(
            configuration: ServiceGroupConfiguration(
                services: list.map { .init(service: $0, successTerminationBehavior: .ignore) },
                logger: quiet
            )
        )
    }
}
