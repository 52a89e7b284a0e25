package import Postgres

/// What somebody does to many dead letters or waiting deliveries, in transactions of a bounded number each.
///
/// The first transaction records how many rows it is about; a run of several, or one that found fewer, records at its end how
/// many it was. Without that, it was interrupted: what was done stays done.
package struct BulkAction: Sendable {
    /// What is done, and to which rows.
    package enum Act: Sendable {
        case dead(DeadLetters.Fate, DeadLetterFilter)
        case waiting(WaitingDeliveries.Act, WaitingFilter)

        /// The most rows of one transaction.
        package var batch: Int { if case .dead = self { 1_000 } else { 10_000 } }

        /// What the audit trail calls it.
        private var entry: (action: AuditAction, subject: String) {
            switch self {
            case .dead(let fate, let filter): (fate.action, "dead letters" + filter.description)
            case .waiting(let act, let filter): (act.action, "deliveries" + filter.description)
            }
        }

        /// Records it; inside a transaction.
        fileprivate func record(
            _ connection: isolated PostgresConnection,
            count: Int,
            by author: AuditAuthor,
            isEnd: Bool = false
        ) throws(PostgresError) {
            try AuditLog.record(connection, entry.action, entry.subject, count: count, by: author, isEnd: isEnd)
        }
    }

    private let act: Act
    /// How many rows there were when it was asked for; never more are taken.
    package let total: Int
    private let author: AuditAuthor
    private let batch: Int

    /// Something that nobody has begun.
    ///
    /// - Parameters:
    ///   - act: What is done.
    ///   - total: How many rows there are.
    ///   - author: Who, and why.
    ///   - batch: The most rows of one transaction; nil for the usual number.
    package init(_ act: Act, total: Int, by author: AuditAuthor, batch: Int? = nil) {
        (self.act, self.total, self.author, self.batch) = (act, total, author, batch ?? act.batch)
    }

    /// Does the first part and records it; inside a transaction.
    ///
    /// - Throws: ``PostgresError``
    /// - Returns: How many rows it was.
    package func begin(_ connection: isolated PostgresConnection) throws(PostgresError) -> Int {
        let limit = min(batch, total)
        let count = try step(connection, limit)
        if count > 0 { try act.record(connection, count: meant(by: count), by: author) }
        return count
    }

    /// Does all of it.
    ///
    /// - Parameters:
    ///   - connection: The way to the database.
    ///   - report: Is told how many are done.
    /// - Throws: ``PostgresError``; what was done before stays done.
    /// - Returns: How many rows it was: fewer than asked for where workers, or other sessions, took some meanwhile.
    package func run(
        over connection: PostgresConnection,
        report: (Int) -> Void = { _ in }
    ) async throws(PostgresError) -> Int {
        // Once in any case: a hold ends also where all that waits is due.
        var done = try await connection.inTransaction { connection throws(PostgresError) in try begin(connection) }
        let first = done
        report(done)
        // A batch is short where another session has rows of it locked just then, and the next one may find more.
        var count = first
        while count > 0, done < total {
            let limit = min(batch, total - done)
            count = try await connection.inTransaction { connection throws(PostgresError) in
                try step(connection, limit)
            }
            done += count
            report(done)
        }
        if first > 0, done > first || done != meant(by: first) {
            let all = done
            try await connection.inTransaction { connection throws(PostgresError) in
                try act.record(connection, count: all, by: author, isEnd: true)
            }
        }
        return done
    }

    /// How many rows the first entry speaks of.
    private func meant(by first: Int) -> Int { first < min(batch, total) ? first : total }

    private func step(_ connection: isolated PostgresConnection, _ limit: Int) throws(PostgresError) -> Int {
        switch act {
        case .dead(let fate, let filter):
            try fate.run(connection, on: DeadLetterStatements.gone(filter, limit: limit))
        case .waiting(let act, let filter):
            try act.run(connection, filter, limit: limit, by: author)
        }
    }
}
