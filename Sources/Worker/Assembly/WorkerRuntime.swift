import Ingest
package import Logging
import NIOCore
import NIOPosix
import Postgres
import ServiceLifecycle
import TLSWire
package import Telemetry
package import UpstreamConfiguration
package import UpstreamKit
import Vocabulary
import XMLWire
import XMPP
import XMPPSession

/// A role of a worker process; several may share the work (`run --roles`).
package enum WorkerRole: String, CaseIterable, Sendable {
    /// Holds the connections, stores and acks.
    case receive
    /// Delivers stored messages to the handlers.
    case dispatch
}

/// The composition root: makes every part of a worker from its configuration, and runs them.
///
/// Parts start in the order of their dependencies and stop in reverse, so that connections can still commit and ack
/// while they close (G7).
package final class WorkerRuntime: Sendable {
    package let metrics: Metrics
    package let readiness: Readiness

    private let logger: Logger
    private let ingest: IngestQueue
    private let group: MultiThreadedEventLoopGroup
    private let open = OpenConnections()
    private let abandoned = AbandonedServices()
    private let services: ServiceGroup
    private let supervisor: Supervisor
    private let dispatch: DispatchRunner?
    private let handlers: [HandlerRegistration]
    private let grace: Duration
    private let tracing: TracingService?

    /// Makes a worker without connecting.
    ///
    /// - Parameters:
    ///   - configuration: A valid configuration.
    ///   - handlers: Swift handlers, besides the configured ones.
    ///   - roles: This process's roles.
    ///   - version: For `upstream_build_info`.
    ///   - logger: The process's logger.
    ///   - manager: The service manager, if it wants to be notified.
    ///   - onListening: Receives the admin endpoints' port.
    /// - Throws: ``WorkerError/unusable(_:)``
    package init(
        configuration: WorkerConfiguration,
        handlers: [HandlerRegistration] = [],
        roles: Set<WorkerRole> = Set(WorkerRole.allCases),
        version: String,
        logger: Logger,
        manager: ServiceManager? = nil,
        onListening: @escaping @Sendable (Int) async -> Void = { _ in }
    ) throws(WorkerError) {
        self.logger = logger
        self.handlers = handlers
        grace = configuration.shutdownGrace
        ingest = IngestQueue(
            writers: configuration.database.writers,
            batchLimit: configuration.database.batchLimit
        )
        let senders = roles.contains(.receive) ? try Self.senders(configuration) : []
        let log = GatheredLog(logger)
        let registrations =
            roles.contains(.dispatch)
            ? try HandlerFactory.registrations(
                configuration.handlers,
                and: handlers,
                logger: logger,
                gathered: log.logger
            ) : []
        let settings = try Self.database(configuration)
        metrics = Self.metrics(configuration, handlers, version: version)
        for sender in senders {
            guard let end = sender.stream.certificateEnd else { continue }
            metrics.certificates.note(.client, of: sender.stream.senderID, remaining: end)
        }
        let tracing = try Self.tracing(configuration, metrics, logger)
        self.tracing = tracing
        let clock = DatabaseClock()
        let monitor = DatabaseMonitor(settings, metrics: metrics, clock: clock, logger: logger)
        let commits = CommitStatus(metrics: metrics, logger: logger)
        readiness = Readiness(
            Self.checks(senders, metrics, monitor) + CommitChecks.checks(queue: ingest, status: commits)
        )
        // The receive path costs a few microseconds per message; most of the CPU time is PostgreSQL's.
        group = MultiThreadedEventLoopGroup(numberOfThreads: max(1, System.coreCount / 4))
        let shared = Shared(
            configuration: configuration,
            database: settings,
            metrics: metrics,
            monitor: monitor,
            clock: clock,
            abandoned: abandoned,
            tracing: tracing?.pipeline,
            logger: logger
        )
        let dispatch = registrations.isEmpty ? nil : DispatchRunner(shared, registrations, log)
        self.dispatch = dispatch
        let admin = AdminServer(
            configuration.admin,
            metrics: metrics,
            readiness: readiness,
            logger: logger,
            onListening: onListening
        )
        let parts = Parts(
            roles: roles,
            senders: senders,
            dispatch: dispatch,
            readiness: readiness,
            ingest: ingest,
            commits: commits,
            open: open,
            group: group,
            manager: manager
        )
        let assembled = shared.assemble(parts, admin: admin, tracing: tracing)
        supervisor = assembled.supervisor
        services = Self.group(of: assembled.services, logger: logger)
    }

    /// Checks a valid configuration for what would keep a worker from starting: wrong file contents, handlers that
    /// can't be made.
    ///
    /// - Throws: ``WorkerError/unusable(_:)`` with everything that was found.
    package static func validate(
        _ configuration: WorkerConfiguration,
        handlers: [HandlerRegistration] = [],
        logger: Logger
    ) throws(WorkerError) {
        var problems: [String] = []
        do { _ = try senders(configuration) } catch { problems.append(error.description) }
        do {
            _ = try tracing(configuration, metrics(configuration, handlers, version: ""), logger)
        } catch {
            problems.append(error.description)
        }
        do { _ = try database(configuration) } catch { problems.append(error.description) }
        do {
            _ = try HandlerFactory.registrations(configuration.handlers, and: handlers, logger: logger)
        } catch {
            problems.append(error.description)
        }
        guard problems.isEmpty else { throw .unusable(problems) }
    }

    /// Installs tracing for the process, if it is on: spans of Swift handlers then join those of the attempts.
    ///
    /// For a process that runs nothing else, before handlers are made.
    package func installTracing() {
        tracing?.install()
    }

    /// Runs until ``shutDown()``, or until a part fails permanently.
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

    /// Whether a service was abandoned during shutdown because the database did not answer; don't wait for it.
    package var hasAbandonedServices: Bool { abandoned.isSet }

    /// Begins a graceful shutdown; ``run()`` returns at its end.
    package func shutDown() async {
        readiness.drain()
        supervisor.stopping(within: grace)
        await services.triggerGracefulShutdown()
    }

    /// Runs `body`, which reloads the configuration, and notifies the service manager.
    package func reload(_ body: () -> Void) { supervisor.reload(body) }

    /// Adopts what needs no restart from another configuration: the handlers' retry settings.
    ///
    /// - Throws: ``WorkerError/unusable(_:)`` if a worker could not be started with it; nothing is adopted then.
    package func adopt(_ configuration: WorkerConfiguration) throws(WorkerError) {
        try Self.validate(configuration, handlers: handlers, logger: logger)
        for handler in configuration.handlers { _ = dispatch?.adopt(handler.retry, of: handler.name) }
    }

    /// Closes the streams although messages wait to be committed, as the grace period is nearly over.
    ///
    /// Call it after ``shutDown()``; ``run()`` may never return.
    package func giveUp() {
        let inFlight = metrics.messages.snapshot().inFlight
        guard inFlight > 0, open.closeNow() > 0 else { return }
        logger.event(
            .warning,
            .givingUp,
            "shutdown.grace is nearly over: closing the streams with messages that are not acked",
            [.count: .int(inFlight)]
        )
    }

    private static func tracing(
        _ configuration: WorkerConfiguration,
        _ metrics: Metrics,
        _ logger: Logger
    ) throws(WorkerError) -> TracingService? {
        guard let tracing = configuration.tracing else { return nil }
        return try TracingService(tracing, configuration, metrics: metrics, logger: logger)
    }

    private static func metrics(
        _ configuration: WorkerConfiguration,
        _ handlers: [HandlerRegistration],
        version: String
    ) -> Metrics {
        Metrics(
            senders: configuration.senders.map(\.senderID),
            categories: configuration.categories + handlers.flatMap(\.categories.names).filter { $0 != "*" },
            handlers: configuration.handlers.map(\.name) + handlers.map(\.name),
            version: version
        )
    }

    private static func senders(_ configuration: WorkerConfiguration) throws(WorkerError) -> [SenderSettings] {
        let limits = StreamLimits(configuration)
        var settings: [SenderSettings] = []
        var problems: [String] = []
        for (index, sender) in configuration.senders.enumerated() {
            do throws(TLSError) {
                settings.append(
                    try SenderSettings(
                        sender,
                        index: index,
                        limits: limits,
                        nameServers: configuration.nameServers
                    )
                )
            } catch {
                problems.append("senders.\(index).tls: \(error.message)")
            }
        }
        guard problems.isEmpty else { throw .unusable(problems) }
        return settings
    }

    private static func database(_ configuration: WorkerConfiguration) throws(WorkerError) -> PostgresSettings {
        do throws(PostgresError) {
            var settings = try PostgresSettings(url: configuration.database.url)
            settings.isWriter = true
            return settings
        } catch {
            throw .unusable(["database.url: \(error.message)"])
        }
    }

    private static func checks(
        _ senders: [SenderSettings],
        _ metrics: Metrics,
        _ monitor: DatabaseMonitor
    ) -> [ReadinessCheck] {
        let streams = senders.map { sender in
            ReadinessCheck("sender-\(sender.stream.senderID)") {
                metrics.connections(sender: Int(sender.stream.index), state: .bound).value > 0
                    ? .ready : .notReady("no stream is bound")
            }
        }
        let clock = ReadinessCheck("clock") { monitor.clockRemark.map { .remark($0) } ?? .ready }
        return [ReadinessCheck("database") { monitor.state }, clock] + streams
    }

    private static func group(of services: [any Service], logger: Logger) -> ServiceGroup {
        func lasting(_ service: some Service) -> any Service { LastingService(service) }
        return ServiceGroup(
            configuration: ServiceGroupConfiguration(
                services: services.map { .init(service: lasting($0)) },
                logger: logger.forLibrary
            )
        )
    }
}
