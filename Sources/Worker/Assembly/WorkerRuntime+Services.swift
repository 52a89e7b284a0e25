import Ingest
import Logging
import MessageStore
import NIOPosix
import Postgres
import ServiceLifecycle
import Telemetry
import UpstreamConfiguration
import Vocabulary
import XMPPSession

extension WorkerRuntime {
    struct Shared {
        let configuration: WorkerConfiguration
        let database: PostgresSettings
        let metrics: Metrics
        let monitor: DatabaseMonitor
        /// The clock that stamps messages.
        let clock: DatabaseClock
        let abandoned: AbandonedServices
        /// Records spans; nil if tracing is off.
        let tracing: MessageTracing?
        let logger: Logger
    }
}

extension WorkerRuntime {
    /// What a worker's services are made from, besides what they share.
    struct Parts {
        let roles: Set<WorkerRole>
        let senders: [SenderSettings]
        let dispatch: DispatchRunner?
        let readiness: Readiness
        let ingest: IngestQueue
        let commits: CommitStatus
        let open: OpenConnections
        let group: MultiThreadedEventLoopGroup
        let manager: ServiceManager?
    }
}

extension WorkerRuntime.Shared {
    /// Makes all services in the order of their dependencies, and the supervisor.
    func assemble(
        _ parts: WorkerRuntime.Parts,
        admin: AdminServer?,
        tracing: TracingService?
    ) -> (services: [any Service], supervisor: Supervisor) {
        let dispatch = parts.dispatch
        let started = StartSignal()
        // Before all others, so that their spans are exported at the end.
        var list: [any Service] = tracing.map { [$0] } ?? []
        if let admin { list.append(admin) }
        list += databaseServices()
        let dispatches = parts.roles.contains(.dispatch)
        list.append(CertificateWatch(configuration, dispatches: dispatches, metrics: metrics, logger: logger))
        list.append(heartbeat(parts.roles, parts.readiness, dispatch))
        if let dispatch { list.append(bounded(dispatch, .milliseconds(500)) { dispatch.isIdle }) }
        if parts.roles.contains(.dispatch) { list.append(replayService(dispatch)) }
        var writers: [LoopProgress] = []
        if parts.roles.contains(.receive) {
            let receiving = receiveServices(parts, started)
            list += receiving.services
            writers = receiving.writers
        } else {
            list.append(StartRunner(monitor: monitor, dispatch: dispatch, started: started))
        }
        let watch = LoopWatch(
            eventLoops: parts.group.makeIterator().map { $0 },
            queue: parts.ingest,
            writers: writers,
            others: dispatch.map { [$0.progress] } ?? []
        )
        let supervisor = supervisor(parts, watch)
        started.connect(supervisor)
        // First, and so the last to end.
        return ([SupervisionRunner(supervisor: supervisor)] + list, supervisor)
    }
}

// Services that may wait for the database during shutdown, with nothing to finish, are bounded: each well above the
// time that a responsive database needs, and all of them below two seconds.
extension WorkerRuntime.Shared {
    func bounded(
        _ service: some Service,
        _ bound: Duration,
        while isIdle: @escaping @Sendable () -> Bool = { true }
    ) -> any Service {
        BoundedShutdown(service: service, abandoned, bound: bound, isIdle: isIdle)
    }

    /// The database monitor and retention.
    func databaseServices() -> [any Service] {
        let retention = RetentionService(database, policy: configuration.retention, monitor: monitor, logger: logger)
        return [
            bounded(MonitorRunner(monitor: monitor), .milliseconds(100)),
            bounded(retention, .milliseconds(200)),
        ]
    }

    /// Writes this worker's row of `upstream.workers`; stops after all that it reports on.
    func heartbeat(_ roles: Set<WorkerRole>, _ readiness: Readiness, _ dispatch: DispatchRunner?) -> any Service {
        let service = HeartbeatService(
            self,
            roles: roles,
            isStopping: { readiness.isDraining },
            activity: { dispatch?.activity ?? [] }
        )
        return bounded(service, .milliseconds(200))
    }

    func replayService(_ dispatch: DispatchRunner?) -> any Service {
        let service = ReplayService(
            settings: database,
            monitor: monitor,
            lease: configuration.lease,
            intake: dispatch?.replays,
            metrics: metrics,
            logger: logger
        )
        return bounded(service, .milliseconds(500))
    }

    /// The writers, then the connections that feed them; and the writers' progress.
    func receiveServices(
        _ parts: WorkerRuntime.Parts,
        _ started: StartSignal
    ) -> (services: [any Service], writers: [LoopProgress]) {
        let dispatch = parts.dispatch
        let stores = (0..<configuration.database.writers).map { _ in
            MessageStore(database, senders: configuration.senders.map(\.senderID), status: parts.commits, clock: clock)
        }
        let service = IngestService(
            queue: parts.ingest,
            writers: stores,
            metrics: metrics,
            logger: logger,
            intake: dispatch?.intake,
            tracing: tracing,
            stamps: clock
        )
        let arrivals = ArrivalClock { [clock] in clock.now() }
        var environment = Connection.Environment(ingest: parts.ingest, clock: arrivals, metrics: metrics)
        environment.open = parts.open
        let services: [any Service] = [
            MemoryRunner(metrics: metrics),
            bounded(StoreRunner(stores: stores), .milliseconds(100)),
            IngestRunner(queue: parts.ingest, service: service),
            ReceiveRunner(
                monitor: monitor,
                dispatch: dispatch,
                senders: parts.senders,
                group: parts.group,
                environment: environment,
                started: started,
                logger: logger
            ),
        ]
        return (services, service.progress)
    }

    /// Makes the process's supervisor.
    func supervisor(_ parts: WorkerRuntime.Parts, _ watch: LoopWatch) -> Supervisor {
        let receives = parts.roles.contains(.receive)
        let status = WorkerStatus(
            metrics,
            connections: receives ? parts.senders.reduce(0) { $0 + $1.connections } : nil
        )
        let commits = CommitChecks.checks(queue: parts.ingest, status: parts.commits)
        return Supervisor(
            manager: parts.manager,
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
