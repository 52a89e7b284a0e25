package import Postgres
package import UpstreamKit
package import Vocabulary

/// Hands the content of a conflict to the handlers of its category.
///
/// The conflict keeps its row, which from then on says when and by whom it was released, and which is what deliveries of
/// its release key are loaded from (`upstream.message_of`). `messages` is left alone: there is one row for each id in
/// it, and that is the copy that was acked as stored.
package enum ConflictRelease {
    /// How it ended.
    package enum Outcome: Sendable, Equatable {
        /// These handlers have a delivery of it now.
        case released([String])
        /// Nothing was changed: it was released before, at this time.
        case releasedBefore(Timestamp)
        /// Nothing was changed: no handler is subscribed to its category.
        case noHandler
        /// There is no such conflict.
        case unknown
    }

    /// Releases one conflict, in one transaction.
    ///
    /// - Throws: ``PostgresError``
    package static func release(
        _ key: MessageKey,
        fingerprint: Digest128,
        by author: AuditAuthor,
        _ connection: PostgresConnection
    ) async throws(PostgresError) -> Outcome {
        try await connection.run { connection throws(PostgresError) in
            try connection.transaction { connection throws(PostgresError) in
                try release(connection, key, fingerprint: fingerprint, by: author)
            }
        }
    }

    /// Releases one conflict, inside a transaction.
    ///
    /// - Throws: ``PostgresError``
    package static func release(
        _ connection: isolated PostgresConnection,
        _ key: MessageKey,
        fingerprint: Digest128,
        by author: AuditAuthor
    ) throws(PostgresError) -> Outcome {
        let found = try connection.run(ConflictReleaseStatements.find(key.digest, fingerprint))
            .first { row throws(PostgresError) in try row.next(Timestamp?.self) }
        guard let releasedAt = found else { return .unknown }
        if let releasedAt { return .releasedBefore(releasedAt) }
        let handlers = try connection.run(ConflictReleaseStatements.queue(key.digest, fingerprint))
            .map { row throws(PostgresError) in try row.next(String.self) }
        guard !handlers.isEmpty else { return .noHandler }
        try connection.run(ConflictReleaseStatements.mark(key.digest, fingerprint))
        let subject = "conflict \(key), fingerprint \(fingerprint)"
        try AuditLog.record(connection, .releaseConflict, subject, count: handlers.count, by: author)
        return .released(handlers.sorted())
    }
}
