package import Logging
import MessageStore
package import Postgres
import Synchronization
package import Telemetry
package import Vocabulary

/// Waits for the database at startup, knows its state for `/readyz`, creates partitions, and measures the upkeep.
///
/// Only one task queries the database; others read its results, so that an unresponsive one blocks nobody.
package final class DatabaseMonitor: Sendable {
    /// A health check without an answer for this long counts as failed.
    private static let answerTimeout = Duration.seconds(5)

    /// What the last check found.
    private enum Finding {
        case none
        case health(StoreHealth)
        /// No answer, with all that is known about it, and with the error's class and SQLSTATE alone.
        case silence(String, summary: String)

        var state: ReadinessCheck.State {
            switch self {
            case .none: .notReady("not checked yet")
            case .health(.ready): .ready
            case .health(.readOnly): .notReady("the database is read-only")
            case .health(.schema(let schema)): .notReady(schema.problem ?? "the schema is not this binary's")
            case .silence(let reason, _): .notReady(reason)
            }
        }

        /// Whether a migration would help.
        var isOfSchema: Bool {
            if case .health(.schema(let schema)) = self { schema.isAwaited } else { false }
        }
    }

    private struct Known {
        var finding = Finding.none
        /// As last reported.
        var clocksDiffer = false
        var partitionsFailed = Reminder()
        var schemaDiffers = Reminder()
        var asking: ContinuousClock.Instant?
        /// The result of startup; nil until it is known.
        var start: Result<Void, WorkerError>?
        var waiters: [Promise<Result<Void, WorkerError>?>] = []
    }

    private let client: PostgresClient
    private let firstInterval: Duration
    private let interval: Duration
    private let upkeepInterval: Duration
    private let metrics: Metrics?
    private let clock: DatabaseClock
    private let expressions: [(key: String, texts: [String])]
    private let logger: Logger
    private let known = Mutex(Known())

    /// A monitor that checks every `firstInterval` until the database is first ready, then every `interval`.
    ///
    /// `expressions` are the configuration's regular expressions, which only the database can judge, by their keys.
    package init(
        _ settings: PostgresSettings,
        metrics: Metrics? = nil,
        clock: DatabaseClock = DatabaseClock(),
        expressions: [(key: String, texts: [String])] = [],
        firstInterval: Duration = .milliseconds(500),
        interval: Duration = .seconds(5),
        upkeepInterval: Duration = .seconds(30),
        logger: Logger
    ) {
        client = PostgresClient(settings, clock: clock)
        self.clock = clock
        self.expressions = expressions
        self.firstInterval = firstInterval
        self.interval = interval
        self.upkeepInterval = upkeepInterval
        self.metrics = metrics
        self.logger = logger
    }

    /// The result of the last check, or that the database does not answer.
    package var state: ReadinessCheck.State {
        known.withLock { known in
            guard let asking = known.asking else { return known.finding.state }
            let silence = ContinuousClock.now - asking
            guard silence > Self.answerTimeout else { return known.finding.state }
            return .notReady("the database has not answered for \(silence.components.seconds) s")
        }
    }

    /// Why the database is not ready, by class and SQLSTATE alone: messages of libpq or the server are not for all.
    package var summary: String? {
        if case .silence(_, let summary) = known.withLock({ $0.finding }) { summary } else { state.reason }
    }

    /// Whether the database was ever ready, so that the worker could begin.
    package var isReady: Bool {
        if case .success = known.withLock({ $0.start }) { true } else { false }
    }

    /// Why the database can't be used; nil if it can, or if only its schema is of another version.
    package var outage: String? { known.withLock { $0.finding.isOfSchema } ? nil : state.reason }

    /// Waits until ``run()`` has found the database writable and its schema current; afterwards returns at once.
    ///
    /// Another schema is waited for without limit: migrations may run before, after, or while workers start.
    ///
    /// - Throws: A ``WorkerError`` if waiting can't help: a migration was applied from another text, or the database refuses
    ///   a regular expression, and so its handler, whenever that registers.
    /// - Returns: False if the task was cancelled first.
    package func waitUntilReady() async throws(WorkerError) -> Bool {
        let promise = Promise<Result<Void, WorkerError>?>()
        var start = known.withLock { known in
            if known.start == nil { known.waiters.append(promise) }
            return known.start
        }
        if start == nil { start = await promise.value(or: nil) }
        try start?.get()
        return start != nil
    }

    /// Checks the database repeatedly until cancelled.
    package func run() async {
        guard await start() else { return await client.close() }
        var day = today
        var measured = ContinuousClock.now
        await measure()
        while (try? await Task.sleep(for: interval)) != nil {
            let health = await ask()
            let today = today
            switch health {
            // A worker and its upkeep continue with a newer schema.
            case .ready?, .schema(.newer)?: break
            case .readOnly?, .schema?, nil: continue
            }
            let isNewDay = today != day
            if isNewDay, await ensurePartitions() { day = today }
            guard isNewDay || ContinuousClock.now - measured >= upkeepInterval else { continue }
            measured = .now
            await measure()
        }
        await client.close()
    }

    private var today: UTCDay { UTCDay(microseconds: clock.now()) }

    /// Checks until the database is ready (true), or no waiting can help (false).
    private func start() async -> Bool {
        while !Task.isCancelled {
            switch await ask() {
            case .ready:
                // Silent by now: asked again.
                guard let refused = await refusedExpressions() else { break }
                guard refused.isEmpty else {
                    begin(.failure(.unusable(refused)))
                    return false
                }
                await ensurePartitions()
                begin(.success(()))
                return true
            case .schema(let state) where !state.isAwaited:
                begin(.failure(.schema(state)))
                return false
            case .schema, .readOnly, nil: break
            }
            try? await Task.sleep(for: firstInterval)
        }
        return false
    }

    /// The keys of the regular expressions that the database refuses, and why; nil if it does not answer.
    private func refusedExpressions() async -> [String]? {
        var refused: [String] = []
        for (key, texts) in expressions {
            do {
                try await client.withConnection { try await $0.judge(texts) }
            } catch let error as PostgresError where error.sqlState?.hasPrefix("22") == true {
                refused.append("\(key): \(error.message)")
            } catch {
                return nil
            }
        }
        return refused
    }

    private func begin(_ result: Result<Void, WorkerError>) {
        let waiters = known.withLock { known in
            known.start = result
            defer { known.waiters = [] }
            return known.waiters
        }
        for waiter in waiters { waiter.fulfil(result) }
    }

    /// Checks the database; nil if it does not answer.
    private func ask() async -> StoreHealth? {
        known.withLock { $0.asking = .now }
        let finding: Finding
        var health: StoreHealth?
        do {
            let found = try await client.withConnection { [clock] in try await StoreHealth.check($0, clock: clock) }
            health = found
            finding = .health(found)
        } catch {
            // Cancelled: says nothing about the database.
            if Task.isCancelled { return nil }
            let reason = "the database does not answer"
            finding = .silence("\(reason): \(error)", summary: reason + Self.kind(error))
        }
        let (before, hasBegun) = known.withLock { known in
            defer { (known.finding, known.asking) = (finding, nil) }
            return (known.finding, known.start != nil)
        }
        tell(finding, after: before, hasBegun: hasBegun)
        tell(clock.difference)
        return health
    }

    /// An error's class and SQLSTATE, with a colon before them.
    private static func kind(_ error: any Error) -> String {
        var found = error as? PostgresError
        if case .database(let cause, _)? = error as? MigrationError { found = cause }
        guard let found else { return "" }
        return ": \(found.failureClass)" + (found.sqlState.map { " (SQLSTATE \($0))" } ?? "")
    }

    private func tell(_ finding: Finding, after before: Finding, hasBegun: Bool) {
        let wasNone = if case .none = before { true } else { false }
        switch finding.state {
        case .notReady(let reason) where finding.isOfSchema:
            guard known.withLock({ $0.schemaDiffers.isDue() }) else { return }
            // A running worker continues: docs/upgrade.md says with which migrations.
            logger.event(
                .warning,
                .schemaDiffers,
                hasBegun
                    ? "the schema is not this binary's any more: going on with it"
                    : "the schema is not this binary's: waiting until it is",
                [.error: .string(reason)]
            )
        // Once per outage, however its errors change; ``OutageLog`` repeats it once a minute.
        case .notReady(let reason) where before.state == .ready || before.isOfSchema || wasNone:
            logger.event(.warning, .databaseUnavailable, "database not ready; retrying", [.error: .string(reason)])
        case .ready where before.isOfSchema:
            known.withLock { $0.schemaDiffers.end() }
            logger.event(.info, .schemaFits, "the schema is this binary's: going on")
        default: break
        }
    }

    /// Reports once that the clocks differ, and once that they agree again.
    private func tell(_ difference: ClockDifference?) {
        guard let difference else { return }
        metrics?.clockAhead.set(difference.ahead.inSeconds)
        let isNotable = difference.isNotable
        let wasNotable = known.withLock { known in
            defer { known.clocksDiffer = isNotable }
            return known.clocksDiffer
        }
        guard isNotable != wasNotable else { return }
        var fields: LogFields = [.aheadSeconds: .seconds(difference.ahead)]
        if isNotable {
            fields[.error] = .string(difference.description)
            let message: StaticString =
                "this machine's clock and the database's differ: messages are stamped by the database's"
            logger.event(.warning, .clockDiffers, message, fields)
        } else {
            logger.event(.info, .clockAgrees, "this machine's clock and the database's agree again", fields)
        }
    }

    /// A remark about the clocks; nil if they agree.
    package var clockRemark: String? {
        guard let difference = clock.difference, difference.isNotable else { return nil }
        return "\(difference.description); messages are stamped by the database's"
    }

    /// Measures the store's upkeep; unknown figures are set to NaN, not to their old values.
    private func measure() async {
        guard let metrics else { return }
        let found = try? await client.withConnection { try await StoreUpkeep.look($0) }
        let disk = found == nil ? nil : try? await client.withConnection { try await DatabaseDisk.look($0) }
        var free = Double.nan
        if case .seen(let space)? = disk { free = Double(space.free) }
        metrics.diskFree.set(free)
        metrics.transactionAge.set(found.map { Double($0.transactionAge) } ?? .nan)
        metrics.slotBytes.set(found.map { Double($0.slotBytes) } ?? .nan)
        metrics.slotShare.set(found?.slotShare ?? .nan)
        metrics.partitionsAhead.set(found.map { Double($0.daysAhead) } ?? .nan)
        metrics.retentionLastRun.set(found.map { Double($0.lastRetention?.microseconds ?? 0) / 1_000_000 } ?? .nan)
        metrics.retentionHeld.set(found.map { Double($0.heldPartitions) } ?? .nan)
    }

    /// Creates the partitions of the coming days.
    @discardableResult
    private func ensurePartitions() async -> Bool {
        do throws(PostgresError) {
            let today = today
            let (made, isComplete) = try await client.run { connection throws(PostgresError) in
                let made = try Partitions.ensure(connection, around: today)
                do throws(PostgresError) {
                    return (made, try AttemptDays.ensure(connection, around: today) != nil)
                } catch {
                    // Without a partition nothing of the history is lost.
                    guard error.mayBeOfHistory else { throw error }
                    return (made, true)
                }
            }
            if made > 0 {
                logger.event(.info, .partitionsCreated, "partitions of messages created", [.count: .int(made)])
            }
            return isComplete
        } catch {
            guard known.withLock({ $0.partitionsFailed.isDue() }) else { return false }
            logger.event(
                .warning,
                .partitionsFailed,
                "cannot create partitions for the coming days; retrying",
                [.sqlstate: .string(error.sqlState ?? ""), .error: .string(error.description)]
            )
            return false
        }
    }
}
