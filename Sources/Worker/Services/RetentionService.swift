package import Logging
package import MessageStore
package import Postgres
import ServiceLifecycle
import Telemetry
package import Vocabulary

/// The schedule of retention: at the start, then once a day, soon after midnight UTC.
package struct RetentionSchedule: Sendable {
    private static let day = Duration.seconds(86_400)
    /// The earliest start after midnight.
    private static let offset = Duration.seconds(900)
    /// The delay before an incomplete run is retried.
    private static let retryDelay = Duration.seconds(900)

    private let spread: Duration

    /// A schedule with a random offset.
    ///
    /// - Parameter spread: From 0 to 1: the position in the half hour of starting times.
    package init(spread: Double = .random(in: 0..<1)) {
        self.spread = .seconds(1800) * spread
    }

    /// The start of the next run after one that ended now.
    package func next(after now: Timestamp, isComplete: Bool) -> Timestamp {
        guard isComplete else { return now + Self.retryDelay + spread / 4 }
        let today = UTCDay(now).start + Self.offset + spread
        return today > now ? today : today + Self.day
    }
}

/// Runs retention within the worker.
///
/// Every worker tries. An advisory lock lets one at a time delete, and later ones find the day's run done. The database
/// decides what is too old, by its own clock and policy; a worker's configuration lengthens the policy once, at
/// startup, and never shortens it.
package struct RetentionService: Service {
    /// How long a policy must have been unchanged before a worker deletes by it.
    ///
    /// So workers that start together with different files can all raise it first.
    package static let settling = Duration.seconds(900)

    private let monitor: DatabaseMonitor
    private let client: PostgresClient
    private let policy: RetentionPolicy
    private let schedule: RetentionSchedule
    private let logger: Logger
    private let now: @Sendable () -> Timestamp

    /// Makes retention with its own connection.
    ///
    /// - Parameters:
    ///   - settings: The database.
    ///   - policy: The configuration's policy.
    ///   - monitor: Knows when the database is ready.
    ///   - logger: The process's logger.
    ///   - schedule: The schedule.
    ///   - now: The wall clock.
    package init(
        _ settings: PostgresSettings,
        policy: RetentionPolicy,
        monitor: DatabaseMonitor,
        logger: Logger,
        schedule: RetentionSchedule = RetentionSchedule(),
        now: @escaping @Sendable () -> Timestamp = { .now }
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
            guard (try? await monitor.waitUntilReady()) != nil else { return }
            var isDeclared = false
            while !Task.isCancelled {
                if !isDeclared { isDeclared = await declare() }
                let isComplete = isDeclared ? await runOnce() : false
                let wait = schedule.next(after: now(), isComplete: isComplete) - now()
                guard (try? await Task.sleep(for: max(wait, .microseconds(1)))) != nil else { break }
            }
        }
        await client.close()
    }

    /// Raises the policy to the configuration's, and warns where it keeps data longer.
    ///
    /// Once per process, so that a period shortened by hand since stays short.
    ///
    /// - Returns: Whether that succeeded.
    package func declare() async -> Bool {
        do {
            let found = try await client.withConnection { connection in
                let retention = Retention(connection)
                let isChanged = try await retention.raise(to: policy)
                // A history that was off has no partitions yet; it is recorded even without them.
                if isChanged { await retention.ensureAttemptDays() }
                return (isChanged: isChanged, inForce: try await retention.policy())
            }
            if found.isChanged {
                logger.event(
                    .info,
                    .retentionPolicyRaised,
                    "retention policy raised to this configuration's"
                )
            }
            guard let inForce = found.inForce?.policy else { return false }
            for (key, path) in inForce.longer(than: policy) {
                logger.event(
                    .warning,
                    .retentionPolicyDiffers,
                    "the retention policy keeps longer than this configuration; `partitions policy --apply` shortens it",
                    [.key: .string("retention.\(key)"), .periodSeconds: .seconds(inForce[keyPath: path])]
                )
            }
            return true
        } catch {
            fail(error)
            return false
        }
    }

    /// Runs once, unless today's run is done.
    ///
    /// - Returns: Whether nothing was left for later.
    package func runOnce() async -> Bool {
        let start = ContinuousClock.now
        do {
            let outcome = try await client.withConnection { connection -> Outcome in
                let retention = Retention(connection, clock: now)
                let difference = try await retention.clockDifference()
                guard !difference.isTooLarge else { return .refused(difference) }
                guard try await retention.isDue() else { return .done(nil) }
                if let age = try await retention.policy()?.age, age < Self.settling { return .waits }
                return .done(
                    try await retention.run { progress in
                        guard case .partition(let partition, let outcome) = progress else { return }
                        log(partition, outcome)
                    }
                )
            }
            switch outcome {
            case .refused(let difference): log(difference)
            case .waits:
                logger.event(
                    .info,
                    .retentionWaits,
                    "the retention policy changed recently; nothing is deleted yet",
                    [.durationSeconds: .seconds(Self.settling)]
                )
            case .done(nil): return true
            case .done(let report?):
                log(report, ContinuousClock.now - start)
                return report.isComplete
            }
            return false
        } catch {
            fail(error)
            return false
        }
    }

    private enum Outcome: Sendable {
        /// The run's report; nil if today's run was already done.
        case done(RetentionReport?)
        /// The policy changed too recently.
        case waits
        /// One of the clocks is wrong.
        case refused(ClockDifference)
    }

    private func fail(_ error: any Error) {
        // Errors during shutdown don't matter.
        guard !Task.isCancelled else { return }
        logger.event(
            .warning,
            .retentionFailed,
            "retention failed; retrying in about 15 minutes",
            [.error: .string("\(error)")]
        )
    }

    private func log(_ difference: ClockDifference) {
        logger.event(
            .error,
            .clockDiffers,
            "this machine's clock and the database's differ too much: nothing is deleted",
            [.aheadSeconds: .seconds(difference.ahead), .error: .string(difference.description)]
        )
    }

    private func log(_ report: RetentionReport, _ duration: Duration) {
        if case .clock(let difference) = report.refusal { log(difference) }
        guard report.rows > 0 || !report.dropped.isEmpty else { return }
        logger.event(
            .info,
            .retentionDone,
            "deleted what was past its retention",
            [.count: .int(report.rows), .durationSeconds: .seconds(duration)]
        )
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
                "an expired partition is kept: deliveries still need it",
                [.table: .string(partition.name), .count: .int(Int(partition.waiting))]
            )
        case .locked:
            logger.event(
                .warning,
                .retentionHeld,
                "an expired partition is kept: the table was being read, so it could not be locked",
                [.table: .string(partition.name)]
            )
        case .absent, .busy: break
        }
    }
}
