import Postgres
import Vocabulary

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
        FROM upstream.conflicts AS c JOIN upstream.subscriptions AS s ON s.category IN (c.category, '*')
        WHERE c.message_key = \(key) AND c.fingerprint = \(fingerprint)
        GROUP BY s.handler, c.message_key, c.fingerprint
        ON CONFLICT DO NOTHING
        RETURNING handler
        """
    }

    /// Records when and by whom it was released, and wakes the workers.
    static func mark(_ key: Digest128, _ fingerprint: Digest128) -> SQL {
        """
        UPDATE upstream.conflicts SET released_at = now(), released_by = session_user
        WHERE message_key = \(key) AND fingerprint = \(fingerprint)
        RETURNING pg_notify('\(raw: DeliveryStatements.channel)', '')
        """
    }
}
