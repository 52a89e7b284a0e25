package import Postgres
import Vocabulary

/// An action on many dead letters, waiting deliveries or quarantined stanzas, in transactions of a bounded size.
///
/// The first transaction records the total; the end of a run of several, or of one that found fewer, records how many were
/// done: if that entry is missing, the run was interrupted. What was done stays done.
package struct BulkAction: Sendable {
    /// What is done, and to which rows.
    package enum Act: Sendable {
        /// At a rate, so many become due per second; those that arrived first, first.
        case dead(DeadLetters.Fate, DeadLetterFilter, RetryRate? = nil)
        case waiting(WaitingDeliveries.Act, WaitingFilter)
        /// Dismisses the stanzas of a condition on rows of `quarantine`, with what it says in words.
        case dismiss(SQL, String)

        /// The most rows of one transaction.
        package var batch: Int { if case .dead = self { 1_000 } else { 10_000 } }

        /// Its name in the audit trail.
        fileprivate var entry: (action: AuditAction, subject: String) {
            switch self {
            case .dead(let fate, let filter, let rate):
                (fate.action, "dead letters" + filter.description + (rate?.words ?? ""))
            case .waiting(let act, let filter): (act.action, "deliveries" + filter.description)
            case .dismiss(_, let words): (.dismissStanzas, words)
            }
        }
    }

    private let act: Act
    /// The number of rows when it was asked for; never more are taken.
    package let total: Int
    private let author: AuditAuthor
    private let batch: Int

    /// Makes an action; `batch` rows go into one transaction, by default the usual number.
    package init(_ act: Act, total: Int, by author: AuditAuthor, batch: Int? = nil) {
        (self.act, self.total, self.author, self.batch) = (act, total, author, batch ?? act.batch)
    }

    /// Acts on the first batch inside a transaction and records it; returns how many rows were changed.
    package func begin(_ connection: isolated PostgresConnection) throws(PostgresError) -> Int {
        try first(connection).count
    }

    /// A batch that was done: its rows, and when the last of them is due, at a rate.
    private typealias Step = (count: Int, due: Timestamp?)

    private func first(_ connection: isolated PostgresConnection) throws(PostgresError) -> Step {
        let step = try step(connection, min(batch, total))
        let (action, subject) = act.entry
        if step.count > 0 {
            try AuditLog.record(connection, action, subject, count: meant(by: step.count), by: author)
        }
        return step
    }

    /// Acts on all batches; `report` receives the number done so far.
    ///
    /// - Returns: How many rows were changed; fewer than the total if others took some meanwhile.
    package func run(
        over connection: PostgresConnection,
        report: (Int) -> Void = { _ in }
    ) async throws(PostgresError) -> Int {
        // At least once: a hold ends even if all that waits is due.
        var step = try await connection.inTransaction { connection throws(PostgresError) in try self.first(connection) }
        let first = step.count
        var done = first
        report(done)
        // A batch is short while another session has some of its rows locked; the next one may find more.
        while step.count > 0, done < total {
            let (limit, due) = (min(batch, total - done), step.due)
            step = try await connection.inTransaction { connection throws(PostgresError) in
                try self.step(connection, limit, after: due)
            }
            done += step.count
            report(done)
        }
        if first > 0, done > first || done != meant(by: first) {
            let (action, subject) = act.entry
            try await AuditLog.record(over: connection, action, subject, count: done, by: author, isEnd: true)
        }
        return done
    }

    /// The number in the first entry.
    private func meant(by first: Int) -> Int { first < min(batch, total) ? first : total }

    /// Acts on a batch; at a rate after what the batches before it made due.
    private func step(
        _ connection: isolated PostgresConnection,
        _ limit: Int,
        after due: Timestamp? = nil
    ) throws(PostgresError) -> Step {
        switch act {
        case .dead(let fate, let filter, let rate?):
            let now = try connection.databaseTime()
            let start = max(due ?? now, now)
            let gone = DeadLetterStatements.gone(filter, limit: limit, isOrdered: true)
            let count = try fate.run(connection, on: gone, due: DeadLetterStatements.due(after: start, rate))
            return (count, start + rate.time(of: count))
        case .dead(let fate, let filter, nil):
            return (try fate.run(connection, on: DeadLetterStatements.gone(filter, limit: limit)), nil)
        case .waiting(let act, let filter):
            return (try act.run(connection, filter, limit: limit, by: author), nil)
        case .dismiss(let condition, _):
            return (try connection.run(QuarantineStatements.dismiss(condition, limit: limit)).value(), nil)
        }
    }
}

package enum QuarantineStatements {
    /// Dismisses some of the stanzas that a condition selects, skipping locked ones, unless it is one alone; returns how many.
    package static func dismiss(_ condition: SQL, limit: Int) -> SQL {
        // A deadlock takes two rows.
        let wait: SQL = limit == 1 ? "" : "SKIP LOCKED"
        return """
            WITH chosen AS MATERIALIZED (
                SELECT id FROM upstream.quarantine WHERE \(condition) ORDER BY id LIMIT \(limit)
                FOR NO KEY UPDATE \(wait)
            ), dismissed AS (
                UPDATE upstream.quarantine SET dismissed_at = greatest(now(), last_seen_at) WHERE id IN (SELECT id FROM chosen) RETURNING 1
            )
            SELECT count(*) FROM dismissed
            """
    }
}
