import Logging
import MessageStore
import NIOPosix
import Pipeline
import Postgres
import ServiceLifecycle
import Telemetry
import XMPPSession

extension WorkerRuntime {
    /// What the services of a worker share.
    struct Shared {
        let configuration: WorkerConfiguration
        let database: PostgresSettings
        let metrics: Metrics
        let monitor: DatabaseMonitor
        let abandoned: AbandonedServices
        let logger: Logger
    }
}

// Services that may wait for the database during shutdown, with nothing to finish there, are bounded: each to well over the
// time that a database which answers needs, and all of them to under two seconds.
extension WorkerRuntime.Shared {
    /// A service whose shutdown takes no longer than a bound.
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

    /// What tells of this worker in `upstream.workers`; stops after all that it tells of.
    func heartbeat(_ roles: Set<WorkerRole>, _ readiness: Readiness, _ dispatch: DispatchRunner?) -> any Service {
        let service = HeartbeatService(
            self,
            roles: roles,
            isStopping: { readiness.isDraining },
            activity: { dispatch?.activity ?? [] }
        )
        return bounded(service, .milliseconds(200))
    }

    /// Replays to handlers.
    func replayService(_ dispatch: DispatchRunner?) -> any Service {
        let service = ReplayService(
            settings: database,
            monitor: monitor,
            lease: configuration.lease,
            intake: dispatch?.replays,
            logger: logger
        )
        return bounded(service, .milliseconds(500))
    }

    /// The writers, then the connections that feed them.
    func receiveServices(
        _ senders: [SenderSettings],
        ingest: IngestQueue,
        commits: CommitStatus,
        dispatch: DispatchRunner?,
        open: OpenConnections,
        group: MultiThreadedEventLoopGroup
    ) -> [any Service] {
        let stores = (0..<configuration.database.writers).map { _ in
            MessageStore(database, senders: configuration.senders.map(\.senderID), status: commits)
        }
        let service = IngestService(
            queue: ingest,
            writers: stores,
            metrics: metrics,
            logger: logger,
            intake: dispatch?.intake
        )
        var environment = Connection.Environment(ingest: ingest, clock: ArrivalClock(), metrics: metrics)
        environment.open = open
        return [
            MemoryRunner(metrics: metrics),
            bounded(StoreRunner(stores: stores), .milliseconds(100)),
            IngestRunner(queue: ingest, service: service),
            ReceiveRunner(
                monitor: monitor,
                dispatch: dispatch,
                senders: senders,
                group: group,
                environment: environment,
                logger: logger
            ),
        ]
    }
}
