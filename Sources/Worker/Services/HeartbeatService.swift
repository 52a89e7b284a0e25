import Dispatcher
import Logging
import MessageStore
import Postgres
import ServiceLifecycle
import Telemetry
import Vocabulary

/// Writes this worker's row in `upstream.workers` every few seconds, for the console and for people; keeps pins as often.
///
/// It has its own session with short time limits: a database that refuses or hangs costs a row and a log line.
struct HeartbeatService: Service {
    /// How often the loop checks whether shutdown has begun, which is reported at once.
    private static let step = Duration.milliseconds(500)
    /// The number of rows after which rows of dead workers are purged again.
    private static let purgeEvery = 60

    private let parts: WorkerParts
    private let client: PostgresClient
    private let pins: PinKeeper
    private let interval = WorkerTable.interval

    init(_ parts: WorkerParts) {
        self.parts = parts
        var settings = parts.database
        settings.statementTimeout = 4_000
        settings.lockTimeout = 1_000
        client = PostgresClient(settings)
        pins = PinKeeper(parts)
    }

    func run() async throws {
        var random = SystemRandomNumberGenerator()
        let identity = WorkerReport(
            instance: Digest128(high: random.next(), low: random.next()),
            worker: DispatchRunner.workerName,
            version: parts.metrics.version,
            roles: WorkerRole.allCases.filter(parts.roles.contains).map(\.rawValue)
        )
        let isListed = await cancelWhenGracefulShutdown { await write(identity) }
        if isListed {
            _ = try? await client.run { connection throws(PostgresError) in
                try connection.run(WorkerStatements.remove, identity)
            }
        }
        await client.close()
    }

    /// Writes rows until cancelled; returns whether it wrote any.
    private func write(_ identity: WorkerReport) async -> Bool {
        var figures = WorkerFigures(of: identity, parts.metrics, now: .now)
        guard (try? await parts.monitor.waitUntilReady()) == true else { return false }
        var (rows, isFailing) = (0, false)
        while !Task.isCancelled {
            let report = figures.next(
                activity: parts.dispatch?.service.activity ?? [],
                isStopping: parts.readiness.isDraining,
                now: .now
            )
            let isPurging = rows % Self.purgeEvery == 0
            do throws(PostgresError) {
                try await client.run { connection throws(PostgresError) in
                    try connection.run(WorkerStatements.write, report)
                    if isPurging { try connection.run(WorkerStatements.purge, report) }
                    pins.exchange(connection)
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

    /// Waits for the interval, or until shutdown begins.
    private func wait(since report: WorkerReport) async {
        let end = ContinuousClock.now + interval
        while !Task.isCancelled, ContinuousClock.now < end, parts.readiness.isDraining == report.isStopping {
            try? await Task.sleep(for: min(Self.step, interval))
        }
    }

    private func fail(_ error: PostgresError) {
        parts.logger.event(
            .warning,
            .workerUnlisted,
            "cannot write this worker's row of upstream.workers; the worker goes on without, retrying",
            [.sqlstate: .string(error.sqlState ?? ""), .error: .string(error.description)]
        )
    }
}
