import Dispatcher
import Ingest
package import Logging
import MessageStore
import NIOCore
import NIOPosix
import Postgres
import Querying
import ServiceLifecycle
import TLSWire
import Telemetry
package import UpstreamConfiguration
package import UpstreamKit
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
    /// What all connections share.
    let environment: Connection.Environment
    /// How far the servers' archives were read; nil if none is.
    let archives: ArchivePointStore?
    let commits: CommitStatus
    let readiness: Readiness
    let group: MultiThreadedEventLoopGroup
    /// Fulfilled once a service was abandoned during shutdown.
    let abandoned = Promise<Void>()
    /// Runs the handlers; nil without any.
    private(set) var dispatch: DispatchRunner?

    /// Makes the parts for these roles, or throws ``WorkerError/unusable(_:)``; `own` are the program's Swift handlers.
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
        monitor = DatabaseMonitor(
            database,
            metrics: metrics,
            clock: clock,
            expressions: roles.contains(.dispatch) ? Self.expressions(configuration) : [],
            logger: logger
        )
        commits = CommitStatus(metrics: metrics, logger: logger)
        ingest = IngestQueue(writers: configuration.database.writers, batchLimit: configuration.database.batchLimit)
        let arrivals = ArrivalClock { [clock] in clock.now() }
        var environment = Connection.Environment(ingest: ingest, clock: arrivals, metrics: metrics)
        archives = senders.contains(where: \.catchesUp) ? ArchivePointStore(database) : nil
        // Containers that share a host's name may share the process id as well: the lease needs a name of its own.
        environment.reader = "\(DispatchRunner.workerName) \(Hex.encode(RandomSource.system.bytes(words: 1)))"
        environment.archives = archives
        self.environment = environment
        readiness = Readiness(
            Self.checks(senders, metrics, monitor) + CommitChecks.checks(queue: ingest, status: commits)
        )
        // The receive path costs a few microseconds per message; most of the CPU time is PostgreSQL's.
        group = MultiThreadedEventLoopGroup(numberOfThreads: max(1, System.coreCount / 4))
        if !registrations.isEmpty { dispatch = DispatchRunner(self, registrations, log) }
    }

    fileprivate static func tracing(
        _ configuration: WorkerConfiguration,
        _ metrics: Metrics,
        _ logger: Logger
    ) throws(WorkerError) -> TracingService? {
        guard let tracing = configuration.tracing else { return nil }
        return try TracingService(tracing, configuration, metrics: metrics, logger: logger)
    }

    fileprivate static func metrics(
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

    fileprivate static func senders(_ configuration: WorkerConfiguration) throws(WorkerError) -> [SenderSettings] {
        var settings: [SenderSettings] = []
        var problems: [String] = []
        for (index, sender) in configuration.senders.enumerated() {
            do throws(TLSError) {
                var made = try SenderSettings(configuration, index: index)
                if sender.dialect == .xmpp, sender.stream.channelBinding == .preferred { made.pin = BindingPin() }
                settings.append(made)
            } catch {
                problems.append("senders.\(index).tls: \(error.message)")
            }
        }
        guard problems.isEmpty else { throw .unusable(problems) }
        return settings
    }

    fileprivate static func database(_ configuration: WorkerConfiguration) throws(WorkerError) -> PostgresSettings {
        do throws(PostgresError) {
            var settings = try PostgresSettings(url: configuration.database.url)
            settings.isWriter = true
            return settings
        } catch {
            throw .unusable([error.message])
        }
    }

    /// The regular expressions of each handler's `where`, with its key.
    private static func expressions(_ configuration: WorkerConfiguration) -> [(key: String, texts: [String])] {
        configuration.handlers.enumerated().map { ("handlers.\($0).where", $1.filter.expressions) }
            .filter { !$0.texts.isEmpty }
    }

    private static func checks(
        _ senders: [SenderSettings],
        _ metrics: Metrics,
        _ monitor: DatabaseMonitor
    ) -> [ReadinessCheck] {
        let streams = senders.map { sender in
            ReadinessCheck(name: "sender-\(sender.stream.senderID)") {
                metrics.connections(sender: Int(sender.stream.index), state: .bound).value > 0
                    ? .ready : .notReady("no stream is bound")
            }
        }
        let clock = ReadinessCheck(name: "clock") { monitor.clockRemark.map { .remark($0) } ?? .ready }
        return [ReadinessCheck(name: "database") { monitor.state }, clock] + streams
    }
}

extension WorkerRuntime {
    /// Finds what would keep a worker with a valid configuration from starting: wrong file contents, and handlers that
    /// can't be made.
    ///
    /// - Throws: ``WorkerError/unusable(_:)`` with everything that was found.
    package static func validate(
        _ configuration: WorkerConfiguration,
        handlers: [HandlerRegistration] = [],
        logger: Logger
    ) throws(WorkerError) {
        var problems: [String] = []
        func note(_ body: () throws(WorkerError) -> Void) {
            do throws(WorkerError) { try body() } catch { problems.append(error.description) }
        }
        note { () throws(WorkerError) in _ = try WorkerParts.senders(configuration) }
        note { () throws(WorkerError) in
            let metrics = WorkerParts.metrics(configuration, handlers, version: "")
            _ = try WorkerParts.tracing(configuration, metrics, logger)
        }
        note { () throws(WorkerError) in _ = try WorkerParts.database(configuration) }
        note { () throws(WorkerError) in
            _ = try HandlerFactory.registrations(configuration.handlers, and: handlers, logger: logger)
        }
        guard problems.isEmpty else { throw .unusable(problems) }
    }
}

extension WorkerParts {
    /// Makes all services in the order of their dependencies, and the supervisor.
    ///
    /// Those that may wait for the database during shutdown, with nothing to finish, are bounded: each well above the
    /// time that a responsive database needs, and all of them below two seconds.
    func assemble(admin: AdminServer?, manager: ServiceManager?) -> (services: [any Service], supervisor: Supervisor) {
        let writing = roles.contains(.receive) ? writing() : nil
        let watch = LoopWatch(
            eventLoops: group.makeIterator().map { $0 },
            queue: ingest,
            writers: writing?.service.progress ?? [],
            others: dispatch.map { [$0.service.progress] } ?? []
        )
        let supervisor = supervisor(watch, manager)
        // First, and so the last to end.
        var list: [any Service] = [UntilShutdown(supervisor.run)]
        // Tracing comes before all others, so that their spans are exported at the end.
        list += ([tracing, admin] as [(any Service)?]).compactMap(\.self)
        list.append(bounded(.milliseconds(100), UntilShutdown(monitor.run)))
        list.append(bounded(.milliseconds(200), UntilShutdown(RetentionService(self).run)))
        list.append(UntilShutdown(CertificateWatch(parts: self).run))
        // Stops after all that it reports on.
        list.append(bounded(.milliseconds(400), HeartbeatService(self)))
        if let dispatch { list.append(bounded(.milliseconds(500), dispatch) { dispatch.service.isIdle }) }
        if roles.contains(.dispatch) {
            list.append(bounded(.milliseconds(500), UntilShutdown(ReplayService(self).run)))
        }
        if let writing {
            list.append(UntilShutdown(MemoryRunner(metrics: metrics).run))
            list.append(bounded(.milliseconds(200), StoreRunner(stores: writing.stores, bell: writing.bell)))
            list.append(IngestRunner(queue: ingest, service: writing.service))
            if let archives { list.append(bounded(.milliseconds(200), ArchiveRunner(points: archives))) }
        }
        list.append(
            UntilShutdown { [self] in
                guard try await monitor.waitUntilReady() else { return }
                // Handlers would never get a message that was received before their subscriptions.
                await dispatch?.service.waitUntilSubscribed()
                guard !Task.isCancelled else { return }
                supervisor.started()
                guard roles.contains(.receive) else { return }
                await PinKeeper(self).load()
                await receive()
            }
        )
        return (list, supervisor)
    }

    private func bounded(
        _ bound: Duration,
        _ service: some Service,
        while isIdle: @escaping @Sendable () -> Bool = { true }
    ) -> any Service {
        BoundedShutdown(service: service, abandoned: abandoned, bound: bound, isIdle: isIdle)
    }

    private func writing() -> (service: IngestService, stores: [MessageStore], bell: DeliveryBell) {
        let bell = DeliveryBell(database, status: commits)
        let ids = configuration.senders.map(\.senderID)
        let stores = (0..<configuration.database.writers).map { _ in
            MessageStore(database, senders: ids, status: commits, clock: clock, bell: bell)
        }
        let service = IngestService(
            queue: ingest,
            writers: stores,
            metrics: metrics,
            logger: logger,
            intake: dispatch?.service.intake,
            tracing: tracing?.pipeline,
            stamps: clock
        )
        return (service, stores, bell)
    }

    private func receive() async {
        await withTaskGroup(of: Void.self) { tasks in
            for settings in senders {
                var logger = logger
                logger[.sender] = .string(settings.stream.senderID)
                let service = SenderService(settings: settings, group: group, environment: environment, logger: logger)
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
                return (reason, metrics.messages.snapshot().inFlight)
            },
            logger: logger
        )
    }
}
