package import Postgres
package import Vocabulary

package struct Retention: Sendable {
    /// How persistently a run tries, and how much it does at once.
    package struct Pace: Sendable {
        /// How often a locked partition is tried.
        package var attempts = 20
        /// The pause between two tries; it doubles up to ``longestPause``.
        package var pause = Duration.milliseconds(500)
        /// The longest pause between two tries.
        package var longestPause = Duration.seconds(8)
        /// Blocks of the ledger per transaction, of 8 KiB and some hundred rows each.
        package var blocks: Int64 = 256
        /// Conflicts, quarantined stanzas, or dead letters per transaction.
        package var rows: Int64 = 1_000
        /// The pause after a transaction that deleted something.
        package var rest = Duration.milliseconds(50)

        package init() {}
    }

    let connection: PostgresConnection
    let pace: Pace
    private let clock: @Sendable () -> Timestamp

    /// Makes retention over a session; `clock` is compared with the database's.
    package init(
        _ connection: PostgresConnection,
        pace: Pace = Pace(),
        clock: @escaping @Sendable () -> Timestamp = { .now }
    ) {
        self.connection = connection
        self.pace = pace
        self.clock = clock
    }

    // MARK: Plan

    /// What ``run(force:report:)`` would do if this policy were in force; changes nothing.
    ///
    /// `limit` bounds the counts of what is too old, and of what needs old days; nil counts all.
    package func plan(
        under policy: RetentionPolicy,
        counted limit: Int? = nil
    ) async throws(PostgresError) -> RetentionPlan {
        try await connection.inTransaction { connection throws(PostgresError) in
            try connection.script(RetentionStatements.begin)
            let now: Timestamp = try connection.run(RetentionStatements.now).value()
            let partitions = try partitions(connection, policy, now: now, counted: limit)
            let ledger: (rows: Int64?, expired: Int64?) =
                try connection.run(RetentionStatements.ledger(before: policy.ledgerEnd(now))).onlyRow { ($0, $1) }
            let expired = RetentionStatements.expired(
                bodies: policy.bodiesEnd(now),
                deadLetters: policy.deadLettersEnd(now),
                counted: limit
            )
            return try connection.run(expired).onlyRow {
                RetentionPlan(
                    now: now,
                    policy: policy,
                    partitions: partitions,
                    missing: Self.missing(now, partitions.map(\.partition)),
                    ledgerRows: ledger.rows,
                    ledgerExpired: ledger.expired,
                    conflicts: $0,
                    quarantine: $1,
                    deadLetters: $2
                )
            }
        }
    }

    /// The days from yesterday to a week ahead that no partition covers.
    private static func missing(_ now: Timestamp, _ partitions: [Partition]) -> [UTCDay] {
        let today = UTCDay(now).number
        return (today - 1...today + 7).map(UTCDay.init(number:)).filter { day in
            !partitions.contains { $0.day <= day && $0.end >= day.end }
        }
    }

    /// The number of partitions, and ``RetentionPlan/missing``, from the catalog alone.
    package func days() async throws(PostgresError) -> (now: Timestamp, count: Int, missing: [UTCDay]) {
        let now: Timestamp = try await connection.result(of: RetentionStatements.now).value()
        let found = try await connection.result(of: RetentionStatements.partitions).rows(Partition.init)
        return (now, found.count, Self.missing(now, found))
    }

    private func partitions(
        _ connection: isolated PostgresConnection,
        _ policy: RetentionPolicy,
        now: Timestamp,
        counted limit: Int?
    ) throws(PostgresError) -> [PartitionPlan] {
        let found = try connection.run(RetentionStatements.partitions).rows(Partition.init)
        var needs: [(day: UTCDay, waiting: Int64, deadLetters: Int64)] = []
        if let last = found.filter({ policy.fate(of: $0.day, until: $0.end, now) == .drop }).map(\.end).max() {
            needs = try connection.run(RetentionStatements.needs(before: last, counted: limit)).rows {
                (UTCDay(number: $0), $1, $2)
            }
        }
        return found.map { partition in
            let own = needs.filter { $0.day >= partition.day && $0.day.start < partition.end }
            let sum = (own.reduce(0) { $0 + $1.waiting }, own.reduce(0) { $0 + $1.deadLetters })
            return PartitionPlan(partition, needs: sum, policy: policy, now: now)
        }
    }

    // MARK: Run

    /// Creates partitions ahead, drops expired ones, and deletes what else is too old.
    ///
    /// `force` also drops days that deliveries still need, with these; `samples` is how long samples are kept, nil for as
    /// they are. Nothing was deleted if the report has a ``RetentionReport/refusal``; after an error, what was done before
    /// stays done.
    package func run(
        force: Bool = false,
        samples: Duration? = nil,
        report: @Sendable (RetentionProgress) -> Void = { _ in }
    ) async throws(PostgresError) -> RetentionReport {
        var done = RetentionReport()
        done.created = try await connection.run { connection throws(PostgresError) in
            let today = UTCDay(try connection.run(RetentionStatements.now).value())
            let created = try Partitions.ensure(connection, around: today)
            // A failure of the history must not keep messages from being deleted; rows without a day wait for one.
            do throws(PostgresError) {
                _ = try AttemptDays.ensure(connection, around: today)
                if samples != .zero { try Samples.ensure(connection, around: today) }
            } catch {
                guard connection.isOpen else { throw error }
            }
            return created
        }
        let difference = try await clockDifference()
        guard !difference.isTooLarge else {
            done.refusal = .clock(difference)
            return done
        }
        guard let policy = try await policy()?.policy else {
            done.refusal = .noPolicy
            return done
        }
        let plan = try await plan(under: policy)
        let dropFault = try await dropDays(of: plan, force: force, &done, report)
        if done.isBusy { return done }
        try await purge(.deadLetters, \.deadLetters, &done, report)
        try await purge(.deadMessages, \.deadMessages, &done) { _, _, _ in }
        try await purge(.ledger, \.ledger, &done) { block, all, deleted in
            report(.ledger(block: block, of: all, deleted: deleted))
        }
        try await purge(.conflicts, \.conflicts, &done, report)
        try await purge(.quarantine, \.quarantine, &done, report)
        let historyFault = await purgeHistory(&done, samples)
        if done.isComplete, dropFault == nil {
            _ = try await connection.result(of: RetentionStatements.record(done, plan.now))
        }
        if let fault = dropFault ?? historyFault { throw fault }
        return done
    }

    /// The difference between this process's clock and the database's.
    package func clockDifference() async throws(PostgresError) -> ClockDifference {
        let clock = clock
        return try await connection.run { connection throws(PostgresError) in
            let asked = clock()
            let database: Timestamp = try connection.databaseTime()
            return ClockDifference(asked: asked, database: database, answered: clock())
        }
    }

    /// Whether no run has completed on this UTC day.
    package func isDue() async throws(PostgresError) -> Bool {
        try await connection.result(of: RetentionStatements.isDue).value()
    }

    /// When the last complete run began; nil if there was none.
    package func lastRun() async throws(PostgresError) -> Timestamp? {
        try await connection.result(of: RetentionStatements.lastRun).value()
    }

    // MARK: Days

    /// Drops what has expired, until somebody else is at it.
    ///
    /// - Returns: The first failure; what keeps one day from being dropped, such as a view that reads it, keeps no other.
    private func dropDays(
        of plan: RetentionPlan,
        force: Bool,
        _ done: inout RetentionReport,
        _ report: @Sendable (RetentionProgress) -> Void
    ) async throws(PostgresError) -> PostgresError? {
        var fault: PostgresError?
        for partition in plan.partitions where partition.fate == .drop || partition.fate == .held {
            guard partition.fate == .drop || force else {
                done.held.append(partition)
                report(.partition(partition, .pending))
                continue
            }
            do throws(PostgresError) { try await drop(partition, force: force, &done, report) } catch {
                guard !error.endsSession, error.failureClass != .cancelled else { throw error }
                fault = fault ?? error
            }
            if done.isBusy { break }
        }
        return fault
    }

    private func drop(
        _ partition: PartitionPlan,
        force: Bool,
        _ done: inout RetentionReport,
        _ report: @Sendable (RetentionProgress) -> Void
    ) async throws(PostgresError) {
        var partition = partition
        var pause = pace.pause
        var attempt = 1
        try await keepDeadMessages(partition, &done)
        while !done.isBusy {
            let drop = try await attemptDrop(partition, force: force)
            (partition.waiting, partition.deadLetters) = (drop.waiting ?? 0, drop.deadLetters ?? 0)
            if drop.outcome == .locked, attempt < pace.attempts {
                attempt += 1
                try await rest(pause)
                pause = min(pause * 2, pace.longestPause)
                continue
            }
            switch drop.outcome {
            case .dropped:
                partition.fate = .drop
                done.dropped.append(partition)
                done.deliveries += drop.discarded
                done.deadLettersKept += Int(partition.deadLetters)
            case .pending:
                partition.fate = .held
                done.held.append(partition)
            case .locked: done.locked.append(partition)
            case .busy: done.isBusy = true
            case .absent: break
            }
            return report(.partition(partition, drop.outcome))
        }
    }

    /// Copies what dead letters need while the table is not locked yet.
    private func keepDeadMessages(
        _ partition: PartitionPlan,
        _ done: inout RetentionReport
    ) async throws(PostgresError) {
        guard partition.deadLetters > 0 else { return }
        let rows = pace.rows
        while true {
            guard let copied = try await integer(RetentionStatements.keep(partition.day, rows: rows)) else {
                done.isBusy = true
                return
            }
            guard copied > 0 else { return }
            try await rest(pace.rest)
        }
    }

    private struct Drop: Sendable {
        var outcome: RetentionOutcome
        var waiting: Int64?
        var deadLetters: Int64?
        var discarded = 0
    }

    /// Drops a day in one transaction; if it is not dropped, nothing is deleted.
    private func attemptDrop(_ partition: PartitionPlan, force: Bool) async throws(PostgresError) -> Drop {
        try await connection.run { connection throws(PostgresError) in
            let statement = RetentionStatements.drop(partition.day)
            func outcome(_ result: PostgresResult) throws(PostgresError) -> Drop {
                try result.onlyRow { Drop(outcome: $0, waiting: $1, deadLetters: $2) }
            }
            guard force else { return try outcome(connection.run(statement)) }
            try connection.begin()
            do throws(PostgresError) {
                let discard = RetentionStatements.discardNeeds(from: partition.day.start, to: partition.end)
                let gone: Int = try connection.run(discard).value()
                var dropped = try outcome(connection.run(statement))
                dropped.discarded = gone
                try connection.script(dropped.outcome == .dropped ? "COMMIT" : "ROLLBACK")
                return dropped
            } catch {
                if connection.isInTransaction { try connection.script("ROLLBACK") }
                throw error
            }
        }
    }

    // MARK: History

    /// Deletes what is too old in the history of attempts, the audit trail, the keys of erased messages, and samples.
    ///
    /// - Returns: The failure, if any; it does not make the rest of the run incomplete.
    private func purgeHistory(_ done: inout RetentionReport, _ samples: Duration?) async -> PostgresError? {
        var fault: PostgresError?
        do throws(PostgresError) { try await purgeAttempts(&done) } catch { fault = error }
        do throws(PostgresError) { try await purge(.audit, \.audit, &done) { _ in } } catch { fault = fault ?? error }
        do throws(PostgresError) { try await purge(.erasures, \.erasures, &done) { _ in } } catch {
            fault = fault ?? error
        }
        if let samples, !done.isBusy {
            do throws(PostgresError) { _ = try await integer(SampleStatements.purge(keeping: samples)) } catch {
                fault = fault ?? error
            }
        }
        return fault
    }

    /// Creates the history's days that the policy asks for; after a failure the next run tries again.
    package func ensureAttemptDays() async {
        _ = try? await connection.run { connection throws(PostgresError) in
            try AttemptDays.ensure(connection, around: UTCDay(try connection.run(RetentionStatements.now).value()))
        }
    }

    /// Drops the expired days of the history; each is tried for as long as a day of messages.
    private func purgeAttempts(_ done: inout RetentionReport) async throws(PostgresError) {
        var pause = pace.pause
        for attempt in 1...pace.attempts where !done.isBusy {
            let (dropped, locked): (Int?, Int?) =
                try await connection.result(of: AttemptStatements.purge).onlyRow { ($0, $1) }
            guard let dropped, let locked else {
                done.isBusy = true
                return
            }
            done.attemptDays += dropped
            done.attemptDaysLocked = locked
            guard locked > 0, attempt < pace.attempts else { return }
            try await rest(pause)
            pause = min(pause * 2, pace.longestPause)
        }
    }

    // MARK: Rows

    /// Purges a table part by part; `progress` receives the block, the number of blocks, and how many rows were
    /// deleted.
    private func purge(
        _ table: RetentionStatements.Purge.Table,
        _ field: WritableKeyPath<RetentionReport, Int>,
        _ done: inout RetentionReport,
        _ progress: @Sendable (Int64, Int64, Int) -> Void
    ) async throws(PostgresError) {
        let all = try await integer(RetentionStatements.blocks(of: table)) ?? 0
        let blocks = pace.blocks
        for block in stride(from: 0, to: all, by: Int64.Stride(blocks)) where !done.isBusy {
            let deleted = try await integer(RetentionStatements.purge(table, from: block, blocks: blocks))
            guard try await count(deleted, field, &done) > 0 || block % (blocks * 64) == 0 else { continue }
            progress(min(block + blocks, all), all, done[keyPath: field])
        }
    }

    private func purge(
        _ what: RetentionStatements.Purge.Rows,
        _ field: WritableKeyPath<RetentionReport, Int>,
        _ done: inout RetentionReport,
        _ report: @Sendable (RetentionProgress) -> Void
    ) async throws(PostgresError) {
        let rows = pace.rows
        while !done.isBusy {
            let deleted = try await integer(RetentionStatements.purge(what, rows: rows))
            guard try await count(deleted, field, &done) > 0 else { return }
            report(.odd(deleted: done.conflicts + done.quarantine + done.deadLetters))
        }
    }

    /// Counts what a transaction deleted, and pauses if that was something.
    private func count(
        _ deleted: Int64?,
        _ field: WritableKeyPath<RetentionReport, Int>,
        _ done: inout RetentionReport
    ) async throws(PostgresError) -> Int64 {
        guard let deleted else {
            done.isBusy = true
            return 0
        }
        done[keyPath: field] += Int(deleted)
        if deleted > 0 { try await rest(pace.rest) }
        return deleted
    }

    private func integer(_ sql: SQL) async throws(PostgresError) -> Int64? {
        try await connection.result(of: sql).value()
    }

}

/// Pauses between two transactions that delete.
func rest(_ duration: Duration) async throws(PostgresError) {
    do { try await Task.sleep(for: duration) } catch { throw .cancelled("between two steps") }
}
