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
        /// Unchanged: no handler is subscribed to its category, or none wants its data.
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
        connection.notifyAfterCommit(DeliveryBell.channel)
        let subject = "conflict \(key), fingerprint \(fingerprint)"
        try AuditLog.record(connection, .releaseConflict, subject, count: handlers.count, by: author)
        return .released(handlers.sorted())
    }
}

enum ConflictReleaseStatements {
    /// Locks a conflict; returns when it was released.
    static func find(_ key: Digest128, _ fingerprint: Digest128) -> SQL {
        """
        SELECT released_at FROM upstream.conflicts
        WHERE message_key = \(key) AND fingerprint = \(fingerprint) FOR UPDATE
        """
    }

    /// Queues it for the handlers of its category; returns their names.
    static func queue(_ key: Digest128, _ fingerprint: Digest128) -> SQL {
        """
        INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at, device_key)
        SELECT
            s.handler, upstream.release_key(c.message_key, c.fingerprint), c.received_at, now(),
            CASE WHEN bool_or(s.by_device) THEN c.device_key END
        FROM upstream.conflicts AS c JOIN upstream.subscriptions AS s ON \(HandlerStatements.wants("c"))
        WHERE c.message_key = \(key) AND c.fingerprint = \(fingerprint)
        GROUP BY s.handler, c.message_key, c.fingerprint
        ON CONFLICT DO NOTHING
        RETURNING handler
        """
    }

    /// Records when and by whom it was released.
    static func mark(_ key: Digest128, _ fingerprint: Digest128) -> SQL {
        """
        UPDATE upstream.conflicts SET released_at = now(), released_by = session_user
        WHERE message_key = \(key) AND fingerprint = \(fingerprint)
        """
    }
}
