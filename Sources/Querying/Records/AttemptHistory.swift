package import Postgres
package import Vocabulary

/// An attempt of a handler at a message, as `upstream.attempts` shows it.
package struct AttemptRow: Sendable, Equatable {
    package var handler: String
    /// Its number: 1 plus the counted attempts before it.
    package var attempt: Int
    /// When it began, by the database's clock.
    package var startedAt: Timestamp
    /// How long it took; nil if a delivery became a dead letter without an attempt.
    package var duration: Duration?
    /// `done`, `retry`, `rejected`, `exhausted` or `released`.
    package var outcome: String
    /// The HTTP status of a webhook's unsuccessful answer.
    package var status: Int?
    package var errorGroup: String?
    /// The process that made it: host and process id.
    package var worker: String
}

/// The history of attempts (`upstream.attempts`).
package enum AttemptHistory {
    /// The kept attempts at a message by all handlers, oldest first; empty if the schema predates the history.
    ///
    /// `key` is the message's key or a conflict's release key. An index serves it: a few milliseconds, however many
    /// there are.
    package static func of(
        _ key: Digest128,
        _ connection: isolated PostgresConnection
    ) throws(PostgresError) -> [AttemptRow] {
        try connection.run(AttemptHistoryStatements.history(of: key)).map { row throws(PostgresError) in
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
    }
}
