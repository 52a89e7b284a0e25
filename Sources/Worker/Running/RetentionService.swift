package import Logging
package import MessageStore
package import Postgres
import ServiceLifecycle
import Telemetry
import Vocabulary

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
/// it was done. What is too old, the database says: its clock, and its policy, which a worker's configuration makes longer
/// once, at the start, and never shorter.
package struct RetentionService: Service {
    /// How long a policy has been as it is before a worker deletes by it.
    ///
    /// Workers that start together, with different files, all get to say how long they keep what they have.
    package static let settling = Duration.seconds(900)

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
    ///   - policy: How long the configuration keeps what.
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
        now: @escaping @Sendable () -> Int64 = { Timestamp.now.microseconds }
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
            var isDeclared = false
            while !Task.isCancelled {
                if !isDeclared { isDeclared = await declare() }
                let isComplete = isDeclared ? await runOnce() : false
                let wait = schedule.next(after: now(), isComplete: isComplete) - now()
                guard (try? await Task.sleep(for: .microseconds(max(wait, 1)))) != nil else { break }
            }
        }
        await client.close()
    }

    /// Makes the policy in force as long as the configuration's, and warns where it stays longer.
    ///
    /// Once in a process: a time that was made shorter by hand since stays so.
    ///
    /// - Returns: Whether that is done.
    package func declare() async -> Bool {
        do {
            let found = try await client.withConnection { connection in
                let retention = Retention(connection)
                let isChanged = try await retention.raise(to: policy)
                return (isChanged: isChanged, inForce: try await retention.policy())
            }
            if found.isChanged {
                logger.event(
                    .info,
                    .retentionPolicyRaised,
                    "the retention policy now keeps as long as this configuration"
                )
            }
            guard let inForce = found.inForce?.policy else { return false }
            for (key, path) in inForce.longer(than: policy) {
                logger.event(
                    .warning,
                    .retentionPolicyDiffers,
                    "the retention policy keeps longer than this configuration: partitions policy --apply changes it",
                    [.key: .string("retention.\(key)"), .durationSeconds: .seconds(inForce[keyPath: path])]
                )
            }
            return true
        } catch {
            fail(error)
            return false
        }
    }

    /// One run, unless somebody has made today's.
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
                    "nothing is deleted by a retention policy that is this young",
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
        /// There is a report where something was to be done.
        case done(RetentionReport?)
        /// The policy is too young.
        case waits
        /// One of the clocks is wrong.
        case refused(ClockDifference)
    }

    private func fail(_ error: any Error) {
        // On the way down nobody wants to know.
        guard !Task.isCancelled else { return }
        logger.event(
            .warning,
            .retentionFailed,
            "retention broke off; it goes on in a quarter of an hour",
            [.error: .string("\(error)")]
        )
    }

    private func log(_ difference: ClockDifference) {
        logger.event(
            .error,
            .clockDiffers,
            "this machine's clock or the database's is wrong: nothing is deleted",
            [.durationSeconds: .seconds(.microseconds(difference.ahead)), .error: .string(difference.description)]
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
                "a partition is too old and kept, for deliveries still need it",
                [.table: .string(partition.name), .count: .int(Int(partition.waiting))]
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
