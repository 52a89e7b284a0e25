package import Postgres
package import UpstreamKit

package struct FailedAttempt: Sendable, Equatable {
    package var messageKey: MessageKey
    package var attempt: AttemptRow

    /// The latest failed attempts of each of these handlers, the latest first; none where no attempts are kept.
    package static func latest(
        _ connection: PostgresConnection,
        of handlers: [String],
        limit: Int
    ) async throws(PostgresError) -> [FailedAttempt] {
        try await connection.result(of: RecordStatements.failures(of: handlers, limit: limit))
            .map { row throws(PostgresError) in
                FailedAttempt(messageKey: try row.next(), attempt: try row.next(AttemptRow.init))
            }
    }
}

extension RecordStatements {
    /// The condition is that of `attempt_batches_failed_idx`.
    static func failures(of handlers: [String], limit: Int) -> SQL {
        """
        SELECT message_key, handler, attempt, started_at, duration, outcome, status, error_group, worker
        FROM unnest(\(handlers)) AS wanted (name) CROSS JOIN LATERAL (
            SELECT * FROM upstream.attempts
            WHERE handler = wanted.name AND outcome IN ('retry', 'rejected', 'exhausted')
            ORDER BY settled_at DESC LIMIT \(limit)
        ) AS attempt
        """
    }
}
