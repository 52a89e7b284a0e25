package import Postgres

/// Retention over one connection: the plan, and the run.
///
/// Every step is a transaction of its own and may be repeated, so a run may break off anywhere.
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
        /// Conflicts, and quarantined stanzas, in one transaction.
        package var rows: Int64 = 1_000
        /// The rest after a transaction that deleted something.
        package var rest = Duration.milliseconds(50)

        package init() {}
    }

    private let connection: PostgresConnection
    private let policy: RetentionPolicy
    private let pace: Pace

    package init(_ connection: PostgresConnection, _ policy: RetentionPolicy, pace: Pace = Pace()) {
        self.connection = connection
        self.policy = policy
        self.pace = pace
    }

    // MARK: Plan

    /// Looks, and changes nothing.
    ///
    /// - Parameter now: Microseconds since 1970-01-01 UTC.
    /// - Returns: What ``run(now:force:report:)`` would do.
    /// - Throws: ``PostgresError``
    package func plan(now: Int64) async throws(PostgresError) -> RetentionPlan {
        try await connection.run { connection throws(PostgresError) in
            let partitions = try partitions(connection, now: now)
            let today = UTCDay(microseconds: now)
            let days = Set(partitions.map(\.day))
            let ledger = try connection.query(RetentionStatements.ledger, Self.time(policy.ledgerEnd(now)))
            let odd = try connection.query(RetentionStatements.odd, Self.time(policy.bodiesEnd(now)))
            return RetentionPlan(
                partitions: partitions,
                missing: (today.number - 1...today.number + 7).map(UTCDay.init(number:)).filter { !days.contains($0) },
                ledgerRows: ledger.integer(0, 0),
                ledgerExpired: ledger.integer(0, 1),
                conflicts: odd.integer(0, 0) ?? 0,
                quarantine: odd.integer(0, 1) ?? 0
            )
        }
    }

    private func partitions(
        _ connection: isolated PostgresConnection,
        now: Int64
    ) throws(PostgresError) -> [PartitionPlan] {
        let result = try connection.query(RetentionStatements.partitions)
        let found = (0..<result.count).compactMap { row -> (name: String, day: UTCDay, row: Int)? in
            guard let name = result.text(row, 0), let day = UTCDay(partition: name) else { return nil }
            return (name, day, row)
        }
        var needs: [UTCDay: (waiting: Int64, deadLetters: Int64)] = [:]
        if let last = found.filter({ policy.fate(of: $0.day, now) == .drop }).map(\.day).max() {
            let result = try connection.query(RetentionStatements.needs, Self.time(last.end))
            for row in 0..<result.count {
                guard let day = result.integer(row, 0) else { continue }
                needs[UTCDay(number: day)] = (result.integer(row, 1) ?? 0, result.integer(row, 2) ?? 0)
            }
        }
        return found.map { name, day, row in
            PartitionPlan(
                name: name,
                day: day,
                rows: result.integer(row, 1).flatMap { $0 < 0 ? nil : $0 },
                bytes: result.integer(row, 2) ?? 0,
                needs: needs[day] ?? (0, 0),
                policy: policy,
                now: now
            )
        }
    }

    // MARK: Run

    /// Makes partitions ahead, drops those that are too old, and deletes what else is too old.
    ///
    /// - Parameters:
    ///   - now: Microseconds since 1970-01-01 UTC.
    ///   - force: Whether days that deliveries or dead letters still need go as well, with these.
    ///   - report: Is told how far it is.
    /// - Returns: What was done.
    /// - Throws: ``PostgresError``; what was done before stays done.
    package func run(
        now: Int64,
        force: Bool = false,
        report: @Sendable (RetentionProgress) -> Void = { _ in }
    ) async throws(PostgresError) -> RetentionReport {
        var done = RetentionReport()
        done.created = try await connection.run { connection throws(PostgresError) in
            try Partitions.ensure(connection, around: UTCDay(microseconds: now))
        }
        for partition in try await plan(now: now).partitions where partition.fate == .drop || partition.fate == .held {
            guard partition.fate == .drop || force else {
                done.held.append(partition)
                report(.partition(partition, .pending))
                continue
            }
            try await drop(partition, force: force, &done, report)
            if done.isBusy { return done }
        }
        try await purgeLedger(before: policy.ledgerEnd(now), &done, report)
        try await purge(RetentionStatements.purgeConflicts, before: policy.bodiesEnd(now), \.conflicts, &done, report)
        try await purge(RetentionStatements.purgeQuarantine, before: policy.bodiesEnd(now), \.quarantine, &done, report)
        if done.isComplete { try await record(done, now) }
        return done
    }

    /// Whether nobody has run it to its end on this UTC day, or later.
    ///
    /// - Parameter now: Microseconds since 1970-01-01 UTC.
    /// - Returns: True where a run is due.
    /// - Throws: ``PostgresError``
    package func isDue(now: Int64) async throws(PostgresError) -> Bool {
        guard let last = try await lastRun() else { return true }
        return last < UTCDay(microseconds: now).start
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
            ] {
                parameters.append(Int64(count))
            }
            _ = try connection.query(RetentionStatements.record, parameters)
        }
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
        while true {
            let drop = try await attemptDrop(partition.day, force: force)
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
                done.deliveries += drop.discarded.waiting
                done.deadLetters += drop.discarded.deadLetters
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

    private struct Drop: Sendable {
        var outcome: RetentionOutcome
        var needs: (waiting: Int64, deadLetters: Int64)
        var discarded: (waiting: Int, deadLetters: Int) = (0, 0)
    }

    /// One transaction: where it does not end with a dropped day, nothing was given up.
    private func attemptDrop(_ day: UTCDay, force: Bool) async throws(PostgresError) -> Drop {
        try await connection.run { connection throws(PostgresError) in
            guard force else { return try Self.drop(connection, day) }
            try connection.script("BEGIN")
            do throws(PostgresError) {
                var parameters = Self.time(day.start)
                parameters.append(timestamp: day.end)
                let gone = try connection.query(RetentionStatements.discardNeeds, parameters)
                var drop = try Self.drop(connection, day)
                drop.discarded = (Int(gone.integer(0, 0) ?? 0), Int(gone.integer(0, 1) ?? 0))
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

    private func purgeLedger(
        before end: Int64,
        _ done: inout RetentionReport,
        _ report: @Sendable (RetentionProgress) -> Void
    ) async throws(PostgresError) {
        let all = try await integer(RetentionStatements.ledgerBlocks) ?? 0
        let blocks = pace.blocks
        for block in stride(from: 0, to: all, by: Int64.Stride(blocks)) where !done.isBusy {
            let deleted = try await integer(RetentionStatements.purgeLedger) { parameters in
                parameters.append(timestamp: end)
                parameters.append(block)
                parameters.append(blocks)
            }
            guard try await count(deleted, \.ledger, &done) > 0 || block % (blocks * 64) == 0 else { continue }
            report(.ledger(block: min(block + blocks, all), of: all, deleted: done.ledger))
        }
    }

    private func purge(
        _ statement: String,
        before end: Int64,
        _ field: WritableKeyPath<RetentionReport, Int>,
        _ done: inout RetentionReport,
        _ report: @Sendable (RetentionProgress) -> Void
    ) async throws(PostgresError) {
        let rows = pace.rows
        while !done.isBusy {
            let deleted = try await integer(statement) { parameters in
                parameters.append(timestamp: end)
                parameters.append(rows)
            }
            guard try await count(deleted, field, &done) > 0 else { return }
            report(.odd(deleted: done.conflicts + done.quarantine))
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
