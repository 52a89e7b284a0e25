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
        case releasedBefore(Int64)
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
        _ connection: PostgresConnection
    ) async throws(PostgresError) -> Outcome {
        try await connection.run { connection throws(PostgresError) in
            try connection.transaction { connection throws(PostgresError) in
                let parameters = Self.parameters(key, fingerprint)
                let found = try connection.query(find, parameters)
                guard found.count > 0 else { return .unknown }
                if let time = found.timestamp(0, 0) { return .releasedBefore(time) }
                let queued = try connection.query(queue, parameters)
                guard queued.count > 0 else { return .noHandler }
                _ = try connection.query(mark, parameters)
                return .released((0..<queued.count).compactMap { queued.text($0, 0) }.sorted())
            }
        }
    }

    private static func parameters(_ key: MessageKey, _ fingerprint: Digest128) -> PostgresParameters {
        var parameters = PostgresParameters()
        parameters.append(uuidHigh: key.digest.high, low: key.digest.low)
        parameters.append(uuidHigh: fingerprint.high, low: fingerprint.low)
        return parameters
    }

    private static let find = """
        SELECT released_at FROM upstream.conflicts WHERE message_key = $1 AND fingerprint = $2 FOR UPDATE
        """

    private static let queue = """
        INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at, device_key)
        SELECT
            s.handler, upstream.release_key(c.message_key, c.fingerprint), c.received_at, now(),
            CASE WHEN bool_or(s.by_device) THEN c.device_key END
        FROM upstream.conflicts AS c JOIN upstream.subscriptions AS s ON s.category IN (c.category, '*')
        WHERE c.message_key = $1 AND c.fingerprint = $2
        GROUP BY s.handler, c.message_key, c.fingerprint
        ON CONFLICT DO NOTHING
        RETURNING handler
        """

    private static let mark = """
        UPDATE upstream.conflicts SET released_at = now(), released_by = session_user
        WHERE message_key = $1 AND fingerprint = $2
        RETURNING pg_notify('\(DeliveryStatements.channel)', '')
        """
}
