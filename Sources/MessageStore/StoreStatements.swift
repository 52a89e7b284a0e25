import Postgres
import Vocabulary

/// The statements of the receive path.
///
/// None can fail in a way that makes PostgreSQL log what a row holds: the functions catch what says something about a
/// row, and a quarantined stanza is bytes that nothing looks into.
enum StoreStatements: StatementCatalog {
    /// New ledger rows, their bodies and their deliveries.
    ///
    /// The last seven parameters are a lease offer. The text is `upstream.store_batch` in `migrations/`.
    static let insert = PostgresStatement(
        """
        SELECT * FROM upstream.store_batch(
            $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23,
            $24
        )
        """
    )

    /// One new message that no handler subscribes to; false for all that ``insert`` has to do.
    ///
    /// The text is `upstream.store_one` in `migrations/`.
    static let insertOne = PostgresStatement(
        "SELECT upstream.store_one($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)"
    )

    /// The ledger's rows for some keys, from a transaction that waits for the standbys too: acks rely on it.
    ///
    /// The text is `upstream.known_messages` in `migrations/`.
    static let ledger = PostgresStatement(
        "SELECT message_key, fingerprint, received_at FROM upstream.known_messages($1)"
    )

    /// Conflicts; the text is `upstream.store_conflicts` in `migrations/`.
    static let conflicts = PostgresStatement(
        "SELECT * FROM upstream.store_conflicts($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)"
    )

    /// Quarantined stanzas, counted once for each copy.
    ///
    /// The same call may come again when its answer was lost: a copy with the row's own time has been counted before. An
    /// earlier one has not, since another writer may have been faster; so a count can be too high after a lost answer,
    /// and is never too low.
    ///
    /// Some of them are acked, so the commit waits for the disk and the standbys here too: a known row is locked even
    /// where nothing is counted, which is a write.
    static let quarantine = PostgresStatement(
        """
        WITH durable AS (
            SELECT set_config('synchronous_commit', 'on', true)
            WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')
        ), input AS (
            SELECT *,
                count(*) OVER copies AS times_seen,
                max(received_at) OVER copies AS last_seen_at,
                row_number() OVER (copies ORDER BY received_at) AS place
            FROM (
                SELECT *
                FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::timestamptz[], $7::bytea[])
                    AS input (sender_id, message_id, reason, detail, stanza, received_at, digest)
            ) AS input
            WINDOW copies AS (PARTITION BY sender_id, digest)
        )
        INSERT INTO upstream.quarantine AS known (
            sender_id, message_id, reason, detail, stanza, digest, times_seen, received_at, last_seen_at
        )
        SELECT sender_id, message_id, reason, detail, stanza, digest, times_seen, received_at, last_seen_at
        FROM input LEFT JOIN durable ON true WHERE place = 1
        ORDER BY sender_id, digest
        ON CONFLICT (sender_id, digest) DO UPDATE
            SET times_seen = known.times_seen + excluded.times_seen,
                last_seen_at = greatest(known.last_seen_at, excluded.last_seen_at)
            WHERE known.last_seen_at <> excluded.last_seen_at
        """
    )

    /// One load at a time.
    static let lockLoads: SQL = "SELECT pg_advisory_xact_lock(hashtextextended('upstream.load', 0))"

    /// Deletes every handler's deliveries of some messages.
    static func deleteDeliveries(of keys: [Digest128]) -> SQL {
        "DELETE FROM upstream.deliveries WHERE message_key = ANY (\(keys))"
    }

    static var samples: [StatementSample] {
        let rows: [PostgresType] = [.text, .text, .uuid, .text, .text, .text, .text, .text, .text]
        return [
            StatementSample(
                "insert",
                insert,
                arrays: [.uuid, .uuid, .timestamptz, .uuid, .timestamptz, .text] + rows,
                [.text, .text, .text, .int8, .int8, .text.array, .text.array, .text.array, .int8]
            ),
            StatementSample("insertOne", insertOne, [.uuid, .uuid, .timestamptz, .text, .text] + rows),
            StatementSample("ledger", ledger, arrays: [.uuid]),
            StatementSample("conflicts", conflicts, arrays: [.uuid, .uuid, .timestamptz, .text] + rows),
            StatementSample(
                "quarantine",
                quarantine,
                arrays: [.text, .text, .text, .text, .bytea, .timestamptz, .bytea]
            ),
            StatementSample("lockLoads", lockLoads),
            StatementSample("deleteDeliveries", deleteDeliveries(of: [])),
        ]
    }
}
