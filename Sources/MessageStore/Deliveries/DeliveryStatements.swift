import Postgres

/// The statements of the dispatcher.
enum DeliveryStatements {
    /// The channel on which ingest announces deliveries for other workers.
    static let channel = "upstream_deliveries"

    // MARK: Handlers

    /// The text of these is in `migrations/`; $1 to $7 are the process's token before and now, its name for people, the
    /// handlers and whether each goes by device, and pairs of a handler and a category.
    static let register = PostgresStatement("SELECT upstream.register_handlers($1, $2, $3, $4, $5, $6, $7)")
    static let keep = PostgresStatement("SELECT upstream.keep_handlers($1)")
    static let withdraw = PostgresStatement("SELECT upstream.withdraw_handlers($1)")

    /// Notes that a worker runs these handlers; twice a minute is enough.
    static let seen = PostgresStatement(
        """
        UPDATE upstream.handlers SET seen_at = now()
        WHERE name = ANY ($1::text[]) AND seen_at < now() - interval '30 seconds'
        """
    )

    /// Handlers that get deliveries though no worker has run them for a while.
    static let unclaimed = PostgresStatement(
        """
        SELECT name FROM upstream.handlers
        WHERE NOT \(HandlerStates.isClaimed)
            AND (EXISTS (SELECT FROM upstream.subscriptions WHERE handler = name)
                OR EXISTS (SELECT FROM upstream.deliveries WHERE handler = name))
        ORDER BY name
        """
    )

    static let nextToken = PostgresStatement("SELECT nextval('upstream.lease_tokens')")

    static let paused = PostgresStatement(
        """
        SELECT name FROM upstream.handlers
        WHERE name = ANY ($1::text[]) AND paused AND (paused_until IS NULL OR paused_until > now())
        """
    )

    static let pause = PostgresStatement(
        """
        UPDATE upstream.handlers SET paused = true, paused_until = NULL, paused_reason = $2, paused_at = now()
        WHERE name = $1
        """
    )

    /// Counts stop at $2; the oldest is looked for among the 1,000 that are due first.
    static let backlog = PostgresStatement(
        """
        SELECT
            name,
            (SELECT count(*) FROM (
                SELECT FROM upstream.deliveries WHERE handler = name LIMIT $2
            ) AS counted),
            (SELECT (extract(epoch FROM now() - min(received_at)) * 1e6)::bigint FROM (
                SELECT received_at FROM upstream.deliveries WHERE handler = name ORDER BY next_attempt_at LIMIT 1000
            ) AS soonest),
            (SELECT count(*) FROM (
                SELECT FROM upstream.dead_letters WHERE handler = name LIMIT $2
            ) AS counted)
        FROM unnest($1::text[]) AS input (name)
        """
    )

    // MARK: Leases

    /// The row of `input` (key, token) where its lease is still ours.
    ///
    /// Found by its key alone, which ``PostgresSettings/findsRowsByIndex`` and the `||` see to: with the handler as it is,
    /// the planner may walk over all of the handler's deliveries, which it believes to be few.
    private static let isHeld =
        "message_key = key AND handler || '' = $1 AND lease_token = token AND lease_owner IS NOT NULL"

    /// Extends leases that are still ours.
    static let extend = PostgresStatement(
        """
        UPDATE upstream.deliveries SET lease_until = now() + $4 * interval '1 microsecond'
        FROM unnest($2::uuid[], $3::bigint[]) AS input (key, token)
        WHERE \(isHeld)
        RETURNING message_key, lease_token
        """
    )

    // MARK: Settlements

    /// Completes deliveries.
    ///
    /// Without waiting for the disk: should the server crash right after, they come again, as at least once allows.
    static let complete = PostgresStatement(complete(""))

    /// The same for a handler that goes by device, with the devices.
    static let completeByDevice = PostgresStatement(complete("RETURNING device_key"))

    private static func complete(_ returning: String) -> String {
        """
        WITH quick AS MATERIALIZED (
            SELECT set_config('synchronous_commit', 'off', true)
        )
        DELETE FROM upstream.deliveries
        USING unnest($2::uuid[], $3::bigint[]) AS input (key, token), quick
        WHERE \(isHeld) \(returning)
        """
    }

    static let retry = PostgresStatement(
        """
        UPDATE upstream.deliveries
        SET attempts = attempts + 1, crashes = 0, last_error = error,
            next_attempt_at = now() + delay * interval '1 microsecond', lease_owner = NULL, lease_until = NULL
        FROM unnest($2::uuid[], $3::bigint[], $4::bigint[], $5::text[]) AS input (key, token, delay, error)
        WHERE \(isHeld)
        """
    )

    static let release = PostgresStatement(
        """
        UPDATE upstream.deliveries
        SET next_attempt_at = now() + delay * interval '1 microsecond', lease_owner = NULL, lease_until = NULL
        FROM unnest($2::uuid[], $3::bigint[], $4::bigint[]) AS input (key, token, delay)
        WHERE \(isHeld)
        """
    )

    /// As ``release``, with what went wrong.
    static let postpone = PostgresStatement(
        """
        UPDATE upstream.deliveries
        SET next_attempt_at = now() + delay * interval '1 microsecond', last_error = error, lease_owner = NULL,
            lease_until = NULL
        FROM unnest($2::uuid[], $3::bigint[], $4::bigint[], $5::text[]) AS input (key, token, delay, error)
        WHERE \(isHeld)
        """
    )

    static let setAside = PostgresStatement(
        """
        WITH gone AS (
            DELETE FROM upstream.deliveries
            USING unnest($2::uuid[], $3::bigint[], $4::bigint[], $5::text[], $6::text[])
                AS input (key, token, counted, failure, failure_group)
            WHERE \(isHeld)
            RETURNING deliveries.*, counted, failure, failure_group
        )
        INSERT INTO upstream.dead_letters (
            handler, message_key, received_at, attempts, next_attempt_at, lease_owner, lease_token, lease_until,
            last_error, replay_id, crashes, device_key, error_group
        )
        SELECT
            handler, message_key, received_at, attempts + counted, next_attempt_at, lease_owner, lease_token,
            lease_until, failure, replay_id, crashes, device_key, failure_group
        FROM gone
        ON CONFLICT (message_key, handler) DO UPDATE SET
            attempts = excluded.attempts, next_attempt_at = excluded.next_attempt_at,
            lease_owner = excluded.lease_owner, lease_token = excluded.lease_token,
            lease_until = excluded.lease_until, last_error = excluded.last_error, replay_id = excluded.replay_id,
            crashes = excluded.crashes, device_key = excluded.device_key, error_group = excluded.error_group,
            died_at = now()
        RETURNING device_key
        """
    )
}
