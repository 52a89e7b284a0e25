import Ingest
import Logging
import MessageStore
import NIOCore
import NIOPosix
import Postgres
import ServiceLifecycle
import TLSWire
import Telemetry
import UpstreamConfiguration
import UpstreamKit
import Vocabulary
import XMPP
import XMPPSession

/// The parts of a worker, made from its configuration; nothing is connected yet.
struct WorkerParts: Sendable {
    let configuration: WorkerConfiguration
    let roles: Set<WorkerRole>
    let logger: Logger
    let database: PostgresSettings
    let metrics: Metrics
    let senders: [SenderSettings]
    /// Records spans; nil if tracing is off.
    let tracing: TracingService?
    /// The clock that stamps messages.
    let clock = DatabaseClock()
    let monitor: DatabaseMonitor
    let ingest: IngestQueue
    let commits: CommitStatus
    let readiness: Readiness
    let group: MultiThreadedEventLoopGroup
    let open = OpenConnections()
    let abandoned = AbandonedServices()
    /// Runs the handlers; nil without any.
    private(set) var dispatch: DispatchRunner?

    /// Makes the parts for these roles; `own` are Swift handlers besides the configured ones.
    ///
    /// - Throws: ``WorkerError/unusable(_:)``
    init(
        _ configuration: WorkerConfiguration,
        own: [HandlerRegistration],
        roles: Set<WorkerRole>,
        version: String,
        logger: Logger
    ) throws(WorkerError) {
        self.configuration = configuration
        self.roles = roles
        self.logger = logger
        senders = roles.contains(.receive) ? try Self.senders(configuration) : []
        let log = GatheredLog(logger)
        let registrations =
            roles.contains(.dispatch)
            ? try HandlerFactory.registrations(
                configuration.handlers,
                and: own,
                logger: logger,
                gathered: log.logger
            ) : []
        database = try Self.database(configuration)
        metrics = Self.metrics(configuration, own, version: version)
        tracing = try Self.tracing(configuration, metrics, logger)
        for sender in senders {
            guard let end = sender.stream.certificateEnd else { continue }
            metrics.certificates.note(.client, of: sender.stream.senderID, remaining: end)
        }
        monitor = DatabaseMonitor(database, metrics: metrics, clock: clock, logger: logger)
        commits = CommitStatus(metrics: metrics, logger: logger)
        ingest = IngestQueue(
            writers: configuration.database.writers,
            batchLimit: configuration.database.batchLimit
        )
        readiness = Readiness(
            Self.checks(senders, metrics, monitor) + CommitChecks.checks(queue: ingest, status: commits)
        )
        // The receive path costs a few microseconds per message; most of the CPU time is PostgreSQL's.
        group = MultiThreadedEventLoopGroup(numberOfThreads: max(1, System.coreCount / 4))
        if !registrations.isEmpty { dispatch = DispatchRunner(self, registrations, log) }
    }

    /// Finds wrong file contents and handlers that can't be made.
    static func validate(
        _ configuration: WorkerConfiguration,
        own: [HandlerRegistration],
        logger: Logger
    ) throws(WorkerError) {
        var problems: [String] = []
        func note(_ body: () throws(WorkerError) -> Void) {
            do throws(WorkerError) { try body() } catch { problems.append(error.description) }
        }
        note { () throws(WorkerError) in _ = try senders(configuration) }
        note { () throws(WorkerError) in
            _ = try tracing(configuration, metrics(configuration, own, version: ""), logger)
        }
        note { () throws(WorkerError) in _ = try database(configuration) }
        note { () throws(WorkerError) in
            _ = try HandlerFactory.registrations(configuration.handlers, and: own, logger: logger)
        }
        guard problems.isEmpty else { throw .unusable(problems) }
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
        _ own: [HandlerRegistration],
        version: String
    ) -> Metrics {
        Metrics(
            senders: configuration.senders.map(\.senderID),
            categories: configuration.categories + own.flatMap(\.categories.names).filter { $0 != "*" },
            handlers: configuration.handlers.map(\.name) + own.map(\.name),
            version: version
        )
    }

    private static func senders(_ configuration: WorkerConfiguration) throws(WorkerError) -> [SenderSettings] {
        var settings: [SenderSettings] = []
        var problems: [String] = []
        for index in configuration.senders.indices {
            do throws(TLSError) {
                settings.append(try SenderSettings(configuration, index: index))
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
}

extension WorkerParts {
    /// Makes all services in the order of their dependencies, and the supervisor.
    ///
    /// Those that may wait for the database during shutdown, with nothing to finish, are bounded: each well above the
    /// time that a responsive database needs, and all of them below two seconds.
    func assemble(admin: AdminServer?, manager: ServiceManager?) -> (services: [any Service], supervisor: Supervisor) {
        let started = StartSignal()
        // Tracing comes before all others, so that their spans are exported at the end.
        var list = ([tracing, admin] as [(any Service)?]).compactMap(\.self)
        list.append(bounded(.milliseconds(100), UntilShutdown { [monitor] in await monitor.run() }))
        list.append(bounded(.milliseconds(200), RetentionService(self)))
        list.append(CertificateWatch(self))
        // Stops after all that it reports on.
        list.append(bounded(.milliseconds(200), HeartbeatService(self)))
        if let dispatch { list.append(bounded(.milliseconds(500), dispatch) { dispatch.isIdle }) }
        if roles.contains(.dispatch) { list.append(bounded(.milliseconds(500), ReplayService(self))) }
        var writers: [LoopProgress] = []
        if roles.contains(.receive) {
            let receiving = receiveServices(started)
            list += receiving.services
            writers = receiving.writers
        } else {
            list.append(
                UntilShutdown { [self] in
                    if try await isReadyToWork() { started.set() }
                }
            )
        }
        let watch = LoopWatch(
            eventLoops: group.makeIterator().map { $0 },
            queue: ingest,
            writers: writers,
            others: dispatch.map { [$0.progress] } ?? []
        )
        let supervisor = supervisor(watch, manager)
        started.connect(supervisor)
        // First, and so the last to end.
        return ([UntilShutdown { await supervisor.run() }] + list, supervisor)
    }

    private func bounded(
        _ bound: Duration,
        _ service: some Service,
        while isIdle: @escaping @Sendable () -> Bool = { true }
    ) -> any Service {
        BoundedShutdown(service: service, abandoned: abandoned, bound: bound, isIdle: isIdle)
    }

    /// Waits for the database and for the handlers' subscriptions: they would never get a message received before.
    ///
    /// - Returns: False if the task was cancelled.
    private func isReadyToWork() async throws -> Bool {
        guard try await monitor.waitUntilReady() else { return false }
        await dispatch?.waitUntilSubscribed()
        return !Task.isCancelled
    }

    /// The writers, then the connections that feed them; and the writers' progress.
    private func receiveServices(_ started: StartSignal) -> (services: [any Service], writers: [LoopProgress]) {
        let stores = (0..<configuration.database.writers).map { _ in
            MessageStore(database, senders: configuration.senders.map(\.senderID), status: commits, clock: clock)
        }
        let service = IngestService(
            queue: ingest,
            writers: stores,
            metrics: metrics,
            logger: logger,
            intake: dispatch?.intake,
            tracing: tracing?.pipeline,
            stamps: clock
        )
        let arrivals = ArrivalClock { [clock] in clock.now() }
        var environment = Connection.Environment(ingest: ingest, clock: arrivals, metrics: metrics)
        environment.open = open
        let connections = UntilShutdown { [self, environment] in
            guard try await isReadyToWork() else { return }
            started.set()
            await receive(environment)
        }
        let services: [any Service] = [
            MemoryRunner(metrics: metrics),
            bounded(.milliseconds(100), StoreRunner(stores: stores)),
            IngestRunner(queue: ingest, service: service),
            connections,
        ]
        return (services, service.progress)
    }

    private func receive(_ environment: Connection.Environment) async {
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

    func supervisor(_ watch: LoopWatch, _ manager: ServiceManager?) -> Supervisor {
        let status = WorkerStatus(
            metrics,
            connections: roles.contains(.receive) ? senders.reduce(0) { $0 + $1.connections } : nil
        )
        let commits = CommitChecks.checks(queue: ingest, status: commits)
        return Supervisor(
            manager: manager,
            watch: watch,
            status: { [monitor] in status.line(waiting: monitor.isReady ? nil : monitor.summary) },
            hindrance: { [metrics, monitor] in
                // The standby's reason, which comes last, says more than that messages wait.
                let reason = commits.compactMap { $0.state().reason }.last ?? monitor.outage
                return Supervisor.Hindrance(reason: reason, waiting: metrics.messages.snapshot().inFlight)
            },
            logger: logger
        )
    }
}
