import Logging
import MessageStore
import Pipeline
import Postgres
import ServiceLifecycle
import Telemetry
import Vocabulary

/// Tells of this worker in `upstream.workers`, every few seconds, for the console and for people.
///
/// Nothing depends on it: it has a session of its own, with short time limits, and a database that refuses or hangs costs a row
/// that is missing, and a line in the log.
struct HeartbeatService: Service {
    /// How often the loop looks whether shutdown has begun, which is told at once.
    private static let step = Duration.milliseconds(500)
    /// After how many rows what is left of dead workers is deleted again.
    private static let purgeEvery = 60

    private let client: PostgresClient
    private let monitor: DatabaseMonitor
    private let interval: Duration
    private let isStopping: @Sendable () -> Bool
    private let metrics: Metrics
    private let roles: [String]
    private let activity: @Sendable () -> [HandlerActivity]
    private let logger: Logger

    /// A heartbeat.
    ///
    /// - Parameters:
    ///   - shared: What the services of the worker share.
    ///   - roles: What this process does.
    ///   - interval: How often a row is written.
    ///   - isStopping: Whether shutdown has begun.
    ///   - activity: What the handlers are doing.
    init(
        _ shared: WorkerRuntime.Shared,
        roles: Set<WorkerRole>,
        interval: Duration = WorkerTable.interval,
        isStopping: @escaping @Sendable () -> Bool,
        activity: @escaping @Sendable () -> [HandlerActivity]
    ) {
        var settings = shared.database
        settings.statementTimeout = 4_000
        settings.lockTimeout = 1_000
        client = PostgresClient(settings)
        monitor = shared.monitor
        self.interval = interval
        self.isStopping = isStopping
        logger = shared.logger
        metrics = shared.metrics
        self.roles = WorkerRole.allCases.filter(roles.contains).map(\.rawValue)
        self.activity = activity
    }

    func run() async throws {
        var random = SystemRandomNumberGenerator()
        let identity = WorkerReport(
            instance: Digest128(high: random.next(), low: random.next()),
            worker: DispatchRunner.workerName,
            version: metrics.version,
            roles: roles
        )
        let isListed = await cancelWhenGracefulShutdown { await write(identity) }
        if isListed {
            try? await client.run { connection throws(PostgresError) in try WorkerTable.remove(identity, connection) }
        }
        await client.close()
    }

    /// Writes rows until cancelled; returns whether it wrote any.
    private func write(_ identity: WorkerReport) async -> Bool {
        var figures = WorkerFigures(
            of: identity,
            metrics: metrics,
            isStopping: isStopping,
            activity: activity,
            now: .now
        )
        guard (try? await monitor.waitUntilReady()) != nil else { return false }
        var (rows, isFailing) = (0, false)
        while !Task.isCancelled {
            let report = figures.next(now: .now)
            let isPurging = rows % Self.purgeEvery == 0
            do throws(PostgresError) {
                try await client.run { connection throws(PostgresError) in
                    try WorkerTable.write(report, connection)
                    if isPurging { try WorkerTable.purge(for: report, connection) }
                }
                isFailing = false
                rows += 1
            } catch {
                if !isFailing, !Task.isCancelled { fail(error) }
                isFailing = true
            }
            await wait(since: report)
        }
        return rows > 0
    }

    /// Waits until the next row is due: after the interval, or at once where shutdown has begun since this one.
    private func wait(since report: WorkerReport) async {
        let end = ContinuousClock.now + interval
        while !Task.isCancelled, ContinuousClock.now < end, isStopping() == report.isStopping {
            try? await Task.sleep(for: min(Self.step, interval))
        }
    }

    private func fail(_ error: PostgresError) {
        logger.event(
            .warning,
            .workerUnlisted,
            "cannot write this worker's row of upstream.workers; the worker goes on without, retrying",
            [.sqlstate: .string(error.sqlState ?? ""), .error: .string(error.description)]
        )
    }
}
