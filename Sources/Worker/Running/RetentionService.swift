package import Logging
package import MessageStore
package import Postgres
import ServiceLifecycle
import Telemetry

/// When retention runs: at the start, then once a day, soon after midnight UTC.
package struct RetentionSchedule: Sendable {
    private static let day: Int64 = 86_400_000_000
    /// How long after midnight the first worker begins, and by how much others may begin later.
    private static let offset: Int64 = 900_000_000
    /// How soon a run that was not complete is made up for.
    private static let again: Int64 = 900_000_000

    private let spread: Int64

    /// A schedule; what is random in it is drawn here.
    ///
    /// - Parameter spread: From 0 to 1: this worker's place among those that begin within half an hour.
    package init(spread: Double = .random(in: 0..<1)) {
        self.spread = Int64(spread * 1_800_000_000)
    }

    /// The next run after one that ended now: microseconds since 1970-01-01 UTC.
    package func next(after now: Int64, isComplete: Bool) -> Int64 {
        guard isComplete else { return now + Self.again + spread / 4 }
        let today = UTCDay(microseconds: now).start + Self.offset + spread
        return today > now ? today : today + Self.day
    }
}

/// Retention as a part of the worker.
///
/// Every worker tries. One lock in the database lets one at a time delete, and whoever comes later on the same day finds that
/// it was done.
package struct RetentionService: Service {
    private let monitor: DatabaseMonitor
    private let client: PostgresClient
    private let policy: RetentionPolicy
    private let schedule: RetentionSchedule
    private let logger: Logger
    private let now: @Sendable () -> Int64

    /// Retention over a connection of its own.
    ///
    /// - Parameters:
    ///   - settings: The database.
    ///   - policy: How long what is kept.
    ///   - monitor: Knows when the database is there.
    ///   - logger: The process's logger.
    ///   - schedule: When.
    ///   - now: The clock: microseconds since 1970-01-01 UTC.
    package init(
        _ settings: PostgresSettings,
        policy: RetentionPolicy,
        monitor: DatabaseMonitor,
        logger: Logger,
        schedule: RetentionSchedule = RetentionSchedule(),
        now: @escaping @Sendable () -> Int64 = { UTCTime.now.microseconds }
    ) {
        client = PostgresClient(settings)
        self.policy = policy
        self.monitor = monitor
        self.schedule = schedule
        self.logger = logger
        self.now = now
    }

    package func run() async throws {
        await cancelWhenGracefulShutdown {
            // A schema that is not ours is the others' to tell.
            guard (try? await monitor.waitUntilReady()) != nil else { return }
            while !Task.isCancelled {
                let isComplete = await runOnce()
                let wait = schedule.next(after: now(), isComplete: isComplete) - now()
                guard (try? await Task.sleep(for: .microseconds(max(wait, 1)))) != nil else { break }
            }
        }
        await client.close()
    }

    /// One run, unless somebody has made today's.
    ///
    /// - Returns: Whether nothing was left for later.
    package func runOnce() async -> Bool {
        let start = ContinuousClock.now
        let time = now()
        do {
            let report = try await client.withConnection { connection -> RetentionReport? in
                let retention = Retention(connection, policy)
                guard try await retention.isDue(now: time) else { return nil }
                return try await retention.run(now: time) { progress in
                    guard case .partition(let partition, let outcome) = progress else { return }
                    log(partition, outcome)
                }
            }
            guard let report else { return true }
            let deleted = report.ledger + report.conflicts + report.quarantine
            if deleted > 0 || !report.dropped.isEmpty {
                logger.event(
                    .info,
                    .retentionDone,
                    "deleted what was past its retention",
                    [.count: .int(deleted), .durationSeconds: .seconds(ContinuousClock.now - start)]
                )
            }
            return report.isComplete
        } catch {
            // On the way down nobody wants to know.
            guard !Task.isCancelled else { return false }
            logger.event(
                .warning,
                .retentionFailed,
                "retention broke off; it goes on in a quarter of an hour",
                [.error: .string("\(error)")]
            )
            return false
        }
    }

    private func log(_ partition: PartitionPlan, _ outcome: RetentionOutcome) {
        switch outcome {
        case .dropped:
            logger.event(
                .info,
                .partitionsDropped,
                "a partition of messages was dropped",
                [.table: .string(partition.name), .bytes: .int(Int(partition.bytes))]
            )
        case .pending:
            logger.event(
                .warning,
                .retentionHeld,
                "a partition is too old and kept, for deliveries or dead letters still need it",
                [.table: .string(partition.name), .count: .int(Int(partition.waiting + partition.deadLetters))]
            )
        case .locked:
            logger.event(
                .warning,
                .retentionHeld,
                "a partition is too old and kept, for somebody has been reading the table all the time",
                [.table: .string(partition.name)]
            )
        case .absent, .busy: break
        }
    }
}
