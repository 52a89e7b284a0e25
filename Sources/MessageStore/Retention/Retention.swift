package import Postgres
import Vocabulary

/// Retention over one connection: the policy, the plan, and the run.
///
/// What is too old is judged by the database, its clock and its policy; this process has no say in it. Every step is a
/// transaction of its own and may be repeated, so a run may break off anywhere.
package struct Retention: Sendable {
    /// How hard a run tries, and how much it does at once.
    package struct Pace: Sendable {
        /// How often a partition that somebody uses is tried.
        package var attempts = 20
        /// The wait between two tries; it doubles up to ``longestPause``.
        package var pause = Duration.milliseconds(500)
        /// The longest wait between two tries.
        package var longestPause = Duration.seconds(8)
        /// Blocks of the ledger in one transaction: of 8 KiB and some hundred rows each.
        package var blocks: Int64 = 256
        /// Conflicts, quarantined stanzas, and dead letters, in one transaction.
        package var rows: Int64 = 1_000
        /// The rest after a transaction that deleted something.
        package var rest = Duration.milliseconds(50)

        package init() {}
    }

    let connection: PostgresConnection
    private let pace: Pace
    private let clock: @Sendable () -> Int64

    /// Retention of the database that the connection leads to.
    ///
    /// - Parameters:
    ///   - connection: The session.
    ///   - pace: How hard a run tries.
    ///   - clock: This process's clock, which a run compares with the database's: microseconds since 1970-01-01 UTC.
    package init(
        _ connection: PostgresConnection,
        pace: Pace = Pace(),
        clock: @escaping @Sendable () -> Int64 = ClockDifference.own
    ) {
        self.connection = connection
        self.pace = pace
        self.clock = clock
    }

    // MARK: Plan

    /// Looks, and changes nothing.
    ///
    /// - Parameter policy: How long what is kept.
    /// - Returns: What ``run(force:report:)`` would do if that policy were in force.
    /// - Throws: ``PostgresError``
    package func plan(under policy: RetentionPolicy) async throws(PostgresError) -> RetentionPlan {
        try await connection.run { connection throws(PostgresError) in
            try connection.transaction { connection throws(PostgresError) in
                try connection.script(RetentionStatements.begin)
                let now = try connection.query(RetentionStatements.now).timestamp(0, 0) ?? 0
                let partitions = try partitions(connection, policy, now: now)
                let today = UTCDay(microseconds: now)
                let ledger = try connection.query(RetentionStatements.ledger, Self.time(policy.ledgerEnd(now)))
                var ends = Self.time(policy.bodiesEnd(now))
                ends.append(timestamp: policy.deadLettersEnd(now))
                let odd = try connection.query(RetentionStatements.odd, ends)
                return RetentionPlan(
                    now: now,
                    policy: policy,
                    partitions: partitions,
                    missing: (today.number - 1...today.number + 7).map(UTCDay.init(number:)).filter { day in
                        !partitions.contains { $0.day <= day && $0.end >= day.end }
                    },
                    ledgerRows: ledger.integer(0, 0),
                    ledgerExpired: ledger.integer(0, 1),
                    conflicts: odd.integer(0, 0) ?? 0,
                    quarantine: odd.integer(0, 1) ?? 0,
                    deadLetters: odd.integer(0, 2) ?? 0
                )
            }
        }
    }

    private func partitions(
        _ connection: isolated PostgresConnection,
        _ policy: RetentionPolicy,
        now: Int64
    ) throws(PostgresError) -> [PartitionPlan] {
        let result = try connection.query(RetentionStatements.partitions)
        let found = (0..<result.count).compactMap { row -> (name: String, day: UTCDay, end: Int64, row: Int)? in
            guard let name = result.text(row, 0), let since = result.timestamp(row, 3),
                let end = result.timestamp(row, 4)
            else { return nil }
            return (name, UTCDay(microseconds: since), end, row)
        }
        var needs: [(day: UTCDay, waiting: Int64, deadLetters: Int64)] = []
        if let last = found.filter({ policy.fate(of: $0.day, until: $0.end, now) == .drop }).map(\.end).max() {
            let result = try connection.query(RetentionStatements.needs, Self.time(last))
            needs = (0..<result.count).compactMap { row in
                result.integer(row, 0).map {
                    (UTCDay(number: $0), result.integer(row, 1) ?? 0, result.integer(row, 2) ?? 0)
                }
            }
        }
        return found.map { name, day, end, row in
            let own = needs.filter { $0.day >= day && $0.day.start < end }
            return PartitionPlan(
                name: name,
                day: day,
                end: end,
                rows: result.integer(row, 1).flatMap { $0 < 0 ? nil : $0 },
                bytes: result.integer(row, 2) ?? 0,
                needs: (own.reduce(0) { $0 + $1.waiting }, own.reduce(0) { $0 + $1.deadLetters }),
                policy: policy,
                now: now
            )
        }
    }

    // MARK: Run

    /// Makes partitions ahead, drops those that are too old, and deletes what else is too old.
    ///
    /// - Parameters:
    ///   - force: Whether days that deliveries still need go as well, with these.
    ///   - report: Is told how far it is.
    /// - Returns: What was done; with ``RetentionReport/refusal`` nothing was deleted.
    /// - Throws: ``PostgresError``; what was done before stays done.
    package func run(
        force: Bool = false,
        report: @Sendable (RetentionProgress) -> Void = { _ in }
    ) async throws(PostgresError) -> RetentionReport {
        var done = RetentionReport()
        done.created = try await connection.run { connection throws(PostgresError) in
            let now = try connection.query(RetentionStatements.now).timestamp(0, 0) ?? 0
            return try Partitions.ensure(connection, around: UTCDay(microseconds: now))
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
        for partition in plan.partitions where partition.fate == .drop || partition.fate == .held {
            guard partition.fate == .drop || force else {
                done.held.append(partition)
                report(.partition(partition, .pending))
                continue
            }
            try await drop(partition, force: force, &done, report)
            if done.isBusy { return done }
        }
        try await purge(RetentionStatements.purgeDeadLetters, \.deadLetters, &done, report)
        try await purge("dead_messages", RetentionStatements.purgeDeadMessages, \.deadMessages, &done) { _, _, _ in }
        try await purge("message_ids", RetentionStatements.purgeLedger, \.ledger, &done) { block, all, deleted in
            report(.ledger(block: block, of: all, deleted: deleted))
        }
        try await purge(RetentionStatements.purgeConflicts, \.conflicts, &done, report)
        try await purge(RetentionStatements.purgeQuarantine, \.quarantine, &done, report)
        if done.isComplete { try await record(done, plan.now) }
        return done
    }

    /// How far this process's clock is from the database's.
    ///
    /// - Throws: ``PostgresError``
    package func clockDifference() async throws(PostgresError) -> ClockDifference {
        let clock = clock
        return try await connection.run { connection throws(PostgresError) in
            let asked = clock()
            let database = try connection.query(RetentionStatements.clock).timestamp(0, 0) ?? asked
            return ClockDifference(asked: asked, database: database, answered: clock())
        }
    }

    /// Whether nobody has run it to its end on this UTC day.
    ///
    /// - Returns: True where a run is due.
    /// - Throws: ``PostgresError``
    package func isDue() async throws(PostgresError) -> Bool {
        try await connection.run { connection throws(PostgresError) in
            try connection.query(RetentionStatements.isDue).bool(0, 0) ?? true
        }
    }

    /// When the last complete run began: microseconds since 1970-01-01 UTC; nil where there was none.
    ///
    /// - Throws: ``PostgresError``
    package func lastRun() async throws(PostgresError) -> Int64? {
        try await connection.run { connection throws(PostgresError) in
            try connection.query(RetentionStatements.lastRun).timestamp(0, 0)
        }
    }

    private func record(_ report: RetentionReport, _ now: Int64) async throws(PostgresError) {
        try await connection.run { connection throws(PostgresError) in
            var parameters = Self.time(now)
            for count in [
                report.dropped.count, report.held.count, report.ledger, report.conflicts, report.quarantine,
                report.deadLetters,
            ] {
                parameters.append(Int64(count))
            }
            _ = try connection.query(RetentionStatements.record, parameters)
        }
    }

    // MARK: Days

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
            (partition.waiting, partition.deadLetters) = drop.needs
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

    /// Copies what dead letters need while the table is still everybody's.
    private func keepDeadMessages(
        _ partition: PartitionPlan,
        _ done: inout RetentionReport
    ) async throws(PostgresError) {
        guard partition.deadLetters > 0 else { return }
        let rows = pace.rows
        while true {
            let copied = try await integer(RetentionStatements.keep) { parameters in
                parameters.append(partition.day.number)
                parameters.append(rows)
            }
            guard let copied else {
                done.isBusy = true
                return
            }
            guard copied > 0 else { return }
            try await rest(pace.rest)
        }
    }

    private struct Drop: Sendable {
        var outcome: RetentionOutcome
        var needs: (waiting: Int64, deadLetters: Int64)
        var discarded = 0
    }

    /// One transaction: where it does not end with a dropped day, nothing was given up.
    private func attemptDrop(_ partition: PartitionPlan, force: Bool) async throws(PostgresError) -> Drop {
        try await connection.run { connection throws(PostgresError) in
            guard force else { return try Self.drop(connection, partition.day) }
            try connection.script("BEGIN")
            do throws(PostgresError) {
                var parameters = Self.time(partition.day.start)
                parameters.append(timestamp: partition.end)
                let gone = try connection.query(RetentionStatements.discardNeeds, parameters)
                var drop = try Self.drop(connection, partition.day)
                drop.discarded = Int(gone.integer(0, 0) ?? 0)
                try connection.script(drop.outcome == .dropped ? "COMMIT" : "ROLLBACK")
                return drop
            } catch {
                if connection.isInTransaction { try connection.script("ROLLBACK") }
                throw error
            }
        }
    }

    private static func drop(
        _ connection: isolated PostgresConnection,
        _ day: UTCDay
    ) throws(PostgresError) -> Drop {
        var parameters = PostgresParameters()
        parameters.append(day.number)
        let result = try connection.query(RetentionStatements.drop, parameters)
        guard let outcome = result.text(0, 0).flatMap(RetentionOutcome.init(rawValue:)) else {
            throw PostgresError(.schema, "upstream.drop_partition gave an outcome that this binary does not know")
        }
        return Drop(outcome: outcome, needs: (result.integer(0, 1) ?? 0, result.integer(0, 2) ?? 0))
    }

    // MARK: Rows

    /// Goes through a table part by part; `progress` is told the block, the number of blocks, and how many rows were
    /// deleted.
    private func purge(
        _ table: String,
        _ statement: String,
        _ field: WritableKeyPath<RetentionReport, Int>,
        _ done: inout RetentionReport,
        _ progress: @Sendable (Int64, Int64, Int) -> Void
    ) async throws(PostgresError) {
        let all = try await integer(RetentionStatements.blocks(of: table)) ?? 0
        let blocks = pace.blocks
        for block in stride(from: 0, to: all, by: Int64.Stride(blocks)) where !done.isBusy {
            let deleted = try await integer(statement) { parameters in
                parameters.append(block)
                parameters.append(blocks)
            }
            guard try await count(deleted, field, &done) > 0 || block % (blocks * 64) == 0 else { continue }
            progress(min(block + blocks, all), all, done[keyPath: field])
        }
    }

    private func purge(
        _ statement: String,
        _ field: WritableKeyPath<RetentionReport, Int>,
        _ done: inout RetentionReport,
        _ report: @Sendable (RetentionProgress) -> Void
    ) async throws(PostgresError) {
        let rows = pace.rows
        while !done.isBusy {
            let deleted = try await integer(statement) { $0.append(rows) }
            guard try await count(deleted, field, &done) > 0 else { return }
            report(.odd(deleted: done.conflicts + done.quarantine + done.deadLetters))
        }
    }

    /// Books what a transaction deleted, and rests where that was something.
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

    private func integer(
        _ sql: String,
        _ fill: @Sendable (inout PostgresParameters) -> Void = { _ in }
    ) async throws(PostgresError) -> Int64? {
        try await connection.run { connection throws(PostgresError) in
            var parameters = PostgresParameters()
            fill(&parameters)
            return try connection.query(sql, parameters).integer(0, 0)
        }
    }

    private func rest(_ duration: Duration) async throws(PostgresError) {
        do {
            try await Task.sleep(for: duration)
        } catch {
            throw PostgresError(.timeout, "cancelled between two steps", sqlState: "57014")
        }
    }

    private static func time(_ microseconds: Int64) -> PostgresParameters {
        var parameters = PostgresParameters()
        parameters.append(timestamp: microseconds)
        return parameters
    }
}
