package import Postgres
package import Vocabulary

/// An attempt of a handler at a message, as `upstream.attempts` shows it.
package struct AttemptRow: Sendable, Equatable {
    /// The handler.
    package var handler: String
    /// Its number: 1, and one more for each attempt before it that was counted.
    package var attempt: Int
    /// When it began, by the database's clock.
    package var startedAt: Timestamp
    /// How long it took; nil where a delivery became a dead letter without an attempt.
    package var duration: Duration?
    /// `done`, `retry`, `rejected`, `exhausted` or `released`.
    package var outcome: String
    /// The HTTP status of a webhook's answer that was no success.
    package var status: Int?
    /// What went wrong.
    package var errorGroup: String?
    /// The process that made it: host and process id.
    package var worker: String
}

/// The history of attempts (`upstream.attempts`).
package enum AttemptHistory {
    /// The attempts at a message that are still kept, by all handlers, oldest first.
    ///
    /// Found by an index, in a few milliseconds however many there are.
    ///
    /// - Parameters:
    ///   - key: The message's key, or the release key of a conflict.
    ///   - connection: A session that may read the tables; one statement.
    /// - Throws: ``PostgresError``
    /// - Returns: The attempts; none where the schema is from before the history.
    package static func of(
        _ key: Digest128,
        _ connection: isolated PostgresConnection
    ) throws(PostgresError) -> [AttemptRow] {
        do throws(PostgresError) {
            return try connection.run(AttemptHistoryStatements.history(of: key)).map { row throws(PostgresError) in
                AttemptRow(
                    handler: try row.next(),
                    attempt: try row.next(),
                    startedAt: try row.next(),
                    duration: try row.next(),
                    outcome: try row.next(),
                    status: try row.next(),
                    errorGroup: try row.next(),
                    worker: try row.next()
                )
            }
        } catch  where error.sqlState == "42883" && !connection.isInTransaction {
            return []
        }
    }
}
