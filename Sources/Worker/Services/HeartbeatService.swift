import Dispatcher
import Logging
import MessageStore
import Postgres
import ServiceLifecycle
import Telemetry
import UpstreamConfiguration
import Vocabulary

/// Writes this worker's row in `upstream.workers` every few seconds, and its samples every minute, for the console and
/// for people; keeps pins as often as the row.
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
        let identity = WorkerReport(
            instance: RandomSource.system.digest(),
            worker: DispatchRunner.workerName,
            version: parts.metrics.version,
            roles: WorkerRole.allCases.filter(parts.roles.contains).map(\.rawValue)
        )
        if var samples = await cancelWhenGracefulShutdown({ await write(identity) }) {
            _ = try? await client.run { connection throws(PostgresError) in
                try connection.run(WorkerStatements.remove, identity)
            }
            await samples.write(isEnd: true)
        }
        await client.close()
    }

    /// Writes rows until cancelled; returns what is left to write of samples, nil if it wrote no row.
    private func write(_ identity: WorkerReport) async -> SampleWriter? {
        var figures = WorkerFigures(of: identity, parts.metrics, now: .now)
        guard (try? await parts.monitor.waitUntilReady()) == true else { return nil }
        var (rows, isFailing) = (0, false)
        // Only now is the database's clock known.
        var samples = SampleWriter(parts, client, identity.instance)
        while !Task.isCancelled {
            let report = figures.next(
                activity: parts.activity,
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
            await samples.write()
            await wait(since: report)
        }
        return rows > 0 ? samples : nil
    }

    /// Waits for the interval, or until the minute ends or shutdown begins.
    private func wait(since report: WorkerReport) async {
        let rest = Sample.minute - parts.clock.now() % Sample.minute
        let end = ContinuousClock.now + min(interval, .microseconds(rest))
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

/// Writes a worker's samples, in the session of its heartbeats.
struct SampleWriter {
    private let parts: WorkerParts
    private let client: PostgresClient
    private let instance: Digest128
    private var recorder: SampleRecorder
    /// The day whose partitions are known to be there.
    private var ensured: UTCDay?
    private var isFailing = false

    init(_ parts: WorkerParts, _ client: PostgresClient, _ instance: Digest128) {
        (self.parts, self.client, self.instance) = (parts, client, instance)
        recorder = SampleRecorder(parts.metrics, receives: parts.roles.contains(.receive), now: parts.clock.now())
    }

    /// Looks at the metrics, and writes the samples of complete minutes, at the end also that of the last one.
    mutating func write(isEnd: Bool = false) async {
        guard parts.configuration.samples > .zero else { return }
        let now = parts.clock.now()
        recorder.look(parts.activity, now: now, isEnd: isEnd)
        let (pending, day) = (recorder.pending, UTCDay(microseconds: now))
        // At the start and at midnight, so that nothing is left to make when the worker ends.
        guard ensured != day || !pending.isEmpty else { return }
        do throws(PostgresError) {
            try await client.run { [instance, ensured] connection throws(PostgresError) in
                if ensured != day { try Samples.ensure(connection, around: day) }
                if !pending.isEmpty { try Samples.write(connection, pending, of: instance) }
            }
            recorder.written()
            (ensured, isFailing) = (day, false)
        } catch {
            if !isFailing, !Task.isCancelled { fail(error) }
            (ensured, isFailing) = (nil, true)
        }
    }

    private func fail(_ error: PostgresError) {
        parts.logger.event(
            .warning,
            .samplesUnwritten,
            "cannot write samples to upstream.samples; the console's charts get a gap unless that ends within an hour",
            [.sqlstate: .string(error.sqlState ?? ""), .error: .string(error.description)]
        )
    }
}

extension WorkerParts {
    fileprivate var activity: [HandlerActivity] { dispatch?.service.activity ?? [] }
}
