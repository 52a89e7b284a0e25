import Logging
import MessageStore
import Postgres
import Telemetry
import UpstreamConfiguration
package import Vocabulary

/// The schedule of retention: at the start, then once a day, soon after midnight UTC.
package struct RetentionSchedule: Sendable {
    private static let day = Duration.seconds(86_400)
    /// The earliest start after midnight.
    private static let offset = Duration.seconds(900)
    /// The delay before an incomplete run is retried.
    private static let retryDelay = Duration.seconds(900)

    private let spread: Duration

    /// A schedule; `spread`, from 0 to 1, is the place in the half hour of starting times.
    package init(spread: Double = .random(in: 0..<1)) {
        self.spread = .seconds(1800) * spread
    }

    package func next(after now: Timestamp, isComplete: Bool) -> Timestamp {
        guard isComplete else { return now + Self.retryDelay + spread / 4 }
        let today = UTCDay(now).start + Self.offset + spread
        return today > now ? today : today + Self.day
    }
}

/// Runs retention within the worker.
///
/// Every worker tries; an advisory lock lets one at a time delete, and later ones find the day's run done. The database
/// decides by its own clock and policy, which a worker's configuration lengthens at startup and never shortens.
struct RetentionService {
    /// How long a policy must be unchanged before a worker deletes by it, so that all that start together raise it first.
    private static let settling = Duration.seconds(900)
    /// How often it looks whether somebody asked for a run.
    private static let interval = Duration.seconds(30)

    private let parts: WorkerParts
    private let client: PostgresClient
    private let schedule = RetentionSchedule()

    init(_ parts: WorkerParts) {
        self.parts = parts
        client = PostgresClient(parts.database)
    }

    private var policy: RetentionPolicy { parts.configuration.retention }

    private var logger: Logger { parts.logger }

    /// Runs until cancelled.
    func run() async {
        let isReady = (try? await parts.monitor.waitUntilReady()) == true
        var isDeclared = false
        while isReady, !Task.isCancelled {
            if !isDeclared { isDeclared = await declare() }
            let isComplete = isDeclared ? await runOnce() : false
            let wait = schedule.next(after: .now, isComplete: isComplete) - Timestamp.now
            let end = ContinuousClock.now + max(wait, .microseconds(1))
            repeat {
                if isDeclared { await runAsAsked() }
                let rest = min(end - .now, Self.interval)
                guard (try? await Task.sleep(for: max(rest, .microseconds(1)))) != nil else { break }
            } while ContinuousClock.now < end
        }
        await client.close()
    }

    /// Raises the policy to the configuration's and warns where it keeps data longer; returns whether that succeeded.
    private func declare() async -> Bool {
        do {
            let found = try await client.withConnection { connection in
                let retention = Retention(connection)
                let isChanged = try await retention.raise(to: policy)
                // A history that was off has no partitions yet; it is recorded even without them.
                if isChanged { await retention.ensureAttemptDays() }
                return (isChanged: isChanged, inForce: try await retention.policy())
            }
            if found.isChanged {
                logger.event(.info, .retentionPolicyRaised, "retention policy raised to this configuration's")
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

    /// Runs once, unless today's run is done; returns whether nothing was left for later.
    private func runOnce() async -> Bool {
        do {
            return try await client.withConnection { connection in
                try await round(connection, isAsked: false).isComplete
            }
        } catch {
            fail(error)
            return false
        }
    }

    /// One round, with what it logs; unless somebody asked for it, one a day.
    private func round(_ connection: PostgresConnection, isAsked: Bool) async throws -> Outcome {
        let start = ContinuousClock.now
        let retention = Retention(connection)
        let difference = try await retention.clockDifference()
        guard !difference.isTooLarge else {
            log(difference)
            return .refused(difference)
        }
        if !isAsked { guard try await retention.isDue() else { return .done(nil) } }
        if let age = try await retention.policy()?.age, age < Self.settling {
            logger.event(
                .info,
                .retentionWaits,
                "the retention policy changed recently; nothing is deleted yet",
                [.durationSeconds: .seconds(Self.settling)]
            )
            return .waits
        }
        let report = try await retention.run(samples: parts.configuration.samples) { progress in
            guard case .partition(let partition, let outcome) = progress else { return }
            log(partition, outcome)
        }
        log(report, ContinuousClock.now - start)
        return .done(report)
    }

    /// Runs at once if somebody asked for it in the console, and notes the outcome; what is broken off another worker takes.
    private func runAsAsked() async {
        // An outage is the monitor's to tell.
        try? await client.withConnection { connection in
            guard let asked = try await MaintenanceRequests.takeRetention(connection) else { return }
            var (state, words) = (MaintenanceRequest.State.failed, "")
            do {
                try await AuditLog.record(over: connection, .runRetention, "retention", by: asked.author)
                let outcome = try await round(connection, isAsked: true)
                (state, words) = (outcome.isComplete ? .done : .failed, outcome.words)
                let (subject, count) = ("retention: partitions dropped", outcome.dropped)
                try await AuditLog.record(
                    over: connection,
                    .runRetention,
                    subject,
                    count: count,
                    by: asked.author,
                    isEnd: true
                )
                // Another process does it, or did the day's own run: this is taken again, and finds what is left.
                guard !outcome.isBusy else { return }
            } catch {
                guard !Task.isCancelled else { return }
                fail(error, "retention that somebody asked for failed")
                (state, words) = (.failed, "\(error)")
            }
            try await MaintenanceRequests.finishRetention(connection, asked.id, state, words)
        }
    }

    private enum Outcome: Sendable {
        /// The run's report; nil if today's was already done.
        case done(RetentionReport?)
        /// The policy changed too recently.
        case waits
        /// One of the clocks is wrong.
        case refused(ClockDifference)

        /// Whether nothing was left for later.
        var isComplete: Bool { if case .done(let report) = self { report?.isComplete ?? true } else { false } }

        /// Whether another process was running retention.
        var isBusy: Bool { if case .done(let report) = self { report?.isBusy ?? false } else { false } }

        var dropped: Int { if case .done(let report) = self { report?.dropped.count ?? 0 } else { 0 } }

        var words: String {
            switch self {
            case .done(let report): report?.words ?? ""
            case .waits: "nothing was deleted: the policy changed within the last 15 minutes"
            case .refused(let difference): RetentionRefusal.clock(difference).words
            }
        }
    }

    private func fail(
        _ error: any Error,
        _ message: StaticString = "retention failed; retrying in about 15 minutes"
    ) {
        // Errors during shutdown don't matter.
        guard !Task.isCancelled else { return }
        logger.event(.warning, .retentionFailed, message, [.error: .string("\(error)")])
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
        let table = LogValue.string(partition.name)
        switch outcome {
        case .dropped:
            let fields: LogFields = [.table: table, .bytes: .int(Int(partition.bytes))]
            logger.event(.info, .partitionsDropped, "a partition of messages was dropped", fields)
        case .pending:
            let fields: LogFields = [.table: table, .count: .int(Int(partition.waiting))]
            logger.event(.warning, .retentionHeld, "an expired partition is kept: deliveries still need it", fields)
        case .locked:
            let message: StaticString =
                "an expired partition is kept: the table was being read, so it could not be locked"
            logger.event(.warning, .retentionHeld, message, [.table: table])
        case .absent, .busy: break
        }
    }
}
