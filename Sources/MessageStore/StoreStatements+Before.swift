import Postgres

// Statements for a schema without migration 0022: a worker outlives `migrate down`, and continues with fewer checks.
extension StoreStatements {
    /// As ``insert``, up to the lease offer.
    static let insertBefore = PostgresStatement(calling: "store_batch", parameters: 24)

    /// As ``quarantine``.
    static let quarantineBefore = PostgresStatement(
        """
        WITH durable AS (
            SELECT set_config(name, value, true) FROM (VALUES
                ('synchronous_commit', 'on', ARRAY['off', 'local', 'remote_write']),
                ('client_min_messages', 'warning', ARRAY['error'])
            ) AS wanted (name, value, weaker)
            WHERE current_setting(name) = ANY (weaker)
        ), input AS (
            SELECT *,
                count(*) OVER copies AS times_seen,
                max(received_at) OVER copies AS last_seen_at,
                row_number() OVER (copies ORDER BY received_at) AS place
            FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::timestamptz[], $7::bytea[])
                AS input (sender_id, message_id, reason, detail, stanza, received_at, digest)
            WINDOW copies AS (PARTITION BY sender_id, digest)
        )
        INSERT INTO upstream.quarantine AS known (
            sender_id, message_id, reason, detail, stanza, digest, times_seen, received_at, last_seen_at
        )
        SELECT sender_id, message_id, reason, detail, stanza, digest, times_seen, received_at, last_seen_at
        FROM input WHERE place = 1 AND (SELECT count(*) FROM durable) >= 0
        ORDER BY sender_id, digest
        ON CONFLICT (sender_id, digest) DO UPDATE
            SET times_seen = known.times_seen + excluded.times_seen,
                last_seen_at = greatest(known.last_seen_at, excluded.last_seen_at)
            WHERE known.last_seen_at <> excluded.last_seen_at
        """
    )
}
