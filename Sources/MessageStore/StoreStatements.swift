import Postgres

/// The statements of the receive path.
///
/// None can fail in a way that makes PostgreSQL quote a row: columns that must not be null are checked before, and there
/// are no check constraints.
enum StoreStatements {
    /// New ledger rows, their bodies and their deliveries, in one implicit transaction.
    ///
    /// `IS TRUE` keeps the planner from turning the look-ups in `fresh` into a join, whose size it can't know: a hashed
    /// subplan is right at every batch size.
    static let insert = PostgresStatement(
        """
        WITH fresh AS (
            INSERT INTO upstream.message_ids (message_key, fingerprint, received_at)
            SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[])
            ON CONFLICT DO NOTHING
            RETURNING message_key
        ), body AS (
            INSERT INTO upstream.messages (
                message_key, received_at, sender_id, message_id, registration_token, device_key, category, data,
                data_raw, extra, message_type, stanza_from
            )
            SELECT * FROM unnest(
                $1::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::uuid[], $8::text[], $9::json[],
                $10::text[], $11::text[], $12::text[], $13::text[]
            ) AS input (message_key)
            WHERE (message_key IN (SELECT message_key FROM fresh)) IS TRUE
        ), queue AS (
            INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at)
            SELECT handler, message_key, received_at, now()
            FROM upstream.subscriptions
            JOIN unnest($1::uuid[], $3::timestamptz[], $8::text[]) AS input (message_key, received_at, name)
                ON category = name OR category = '*'
            WHERE (message_key IN (SELECT message_key FROM fresh)) IS TRUE
            ON CONFLICT DO NOTHING
        )
        SELECT count(*) FROM fresh
        """
    )

    /// The ledger's rows for some keys.
    static let ledger = PostgresStatement(
        "SELECT message_key, fingerprint, received_at FROM upstream.message_ids WHERE message_key = ANY ($1::uuid[])"
    )

    /// Conflicts, counted once for each copy: a copy that is not later than the row has been counted before.
    static let conflicts = PostgresStatement(
        """
        WITH input AS (
            SELECT *,
                count(*) OVER copies AS times_seen,
                max(received_at) OVER copies AS last_seen_at,
                row_number() OVER (copies ORDER BY received_at) AS place
            FROM unnest(
                $1::uuid[], $2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::uuid[], $8::text[],
                $9::json[], $10::text[], $11::text[], $12::text[], $13::text[]
            ) AS input (
                message_key, fingerprint, received_at, sender_id, message_id, registration_token, device_key, category,
                data, data_raw, extra, message_type, stanza_from
            )
            WINDOW copies AS (PARTITION BY message_key, fingerprint)
        )
        INSERT INTO upstream.conflicts AS known (
            message_key, fingerprint, received_at, sender_id, message_id, registration_token, device_key, category,
            data, data_raw, extra, message_type, stanza_from, times_seen, last_seen_at
        )
        SELECT
            message_key, fingerprint, received_at, sender_id, message_id, registration_token, device_key, category,
            data, data_raw, extra, message_type, stanza_from, times_seen, last_seen_at
        FROM input WHERE place = 1
        ORDER BY message_key, fingerprint
        ON CONFLICT (message_key, fingerprint) DO UPDATE
            SET times_seen = known.times_seen + excluded.times_seen, last_seen_at = excluded.last_seen_at
            WHERE known.last_seen_at < excluded.last_seen_at
        """
    )

    /// Quarantined stanzas, counted once for each copy, like conflicts.
    static let quarantine = PostgresStatement(
        """
        WITH input AS (
            SELECT *,
                count(*) OVER copies AS times_seen,
                max(received_at) OVER copies AS last_seen_at,
                row_number() OVER (copies ORDER BY received_at) AS place
            FROM (
                SELECT *, sha256(stanza) AS digest
                FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::timestamptz[])
                    AS input (sender_id, message_id, reason, detail, stanza, received_at)
            ) AS input
            WINDOW copies AS (PARTITION BY sender_id, digest)
        )
        INSERT INTO upstream.quarantine AS known (
            sender_id, message_id, reason, detail, stanza, digest, times_seen, received_at, last_seen_at
        )
        SELECT sender_id, message_id, reason, detail, stanza, digest, times_seen, received_at, last_seen_at
        FROM input WHERE place = 1
        ORDER BY sender_id, digest
        ON CONFLICT (sender_id, digest) DO UPDATE
            SET times_seen = known.times_seen + excluded.times_seen, last_seen_at = excluded.last_seen_at
            WHERE known.last_seen_at < excluded.last_seen_at
        """
    )
}
