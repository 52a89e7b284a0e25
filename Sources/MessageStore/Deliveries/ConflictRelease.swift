package import Postgres
package import UpstreamKit
package import Vocabulary

/// Delivers a conflict's content to the handlers of its category.
///
/// The conflict keeps its row, which from then on says when and by whom it was released, and from which deliveries of
/// its release key are loaded (`upstream.message_of`). `messages` is unchanged: its one row per id is the copy that was
/// acked as stored.
package enum ConflictRelease {
    package enum Outcome: Sendable, Equatable {
        /// These handlers now have a delivery of it.
        case released([String])
        /// Unchanged: already released at this time.
        case releasedBefore(Timestamp)
        /// Unchanged: no handler is subscribed to its category.
        case noHandler
        case unknown
    }

    /// Releases one conflict, inside a transaction.
    package static func release(
        _ connection: isolated PostgresConnection,
        _ key: MessageKey,
        fingerprint: Digest128,
        by author: AuditAuthor
    ) throws(PostgresError) -> Outcome {
        let found = try connection.run(ConflictReleaseStatements.find(key.digest, fingerprint))
            .firstRow { $0 as Timestamp? }
        guard let releasedAt = found else { return .unknown }
        if let releasedAt { return .releasedBefore(releasedAt) }
        let handlers: [String] = try connection.run(ConflictReleaseStatements.queue(key.digest, fingerprint)).rows {
            $0
        }
        guard !handlers.isEmpty else { return .noHandler }
        try connection.run(ConflictReleaseStatements.mark(key.digest, fingerprint))
        let subject = "conflict \(key), fingerprint \(fingerprint)"
        try AuditLog.record(connection, .releaseConflict, subject, count: handlers.count, by: author)
        return .released(handlers.sorted())
    }
}
