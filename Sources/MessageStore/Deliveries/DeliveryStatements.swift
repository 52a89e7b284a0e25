import Postgres

/// The statements of the dispatcher.
enum DeliveryStatements {
    /// The channel on which ingest announces deliveries for other workers.
    static let channel = "upstream_deliveries"

    // MARK: Handlers

    static let registerHandlers = PostgresStatement(
        """
        INSERT INTO upstream.handlers (name) SELECT * FROM unnest($1::text[]) ORDER BY 1
        ON CONFLICT (name) DO UPDATE SET seen_at = now()
        """
    )

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

    /// What the handlers no longer want.
    static let dropSubscriptions = PostgresStatement(
        """
        DELETE FROM upstream.subscriptions
        WHERE handler = ANY ($1::text[])
            AND (handler, category) NOT IN (SELECT * FROM unnest($2::text[], $3::text[]))
        """
    )

    static let addSubscriptions = PostgresStatement(
        """
        INSERT INTO upstream.subscriptions AS known (handler, category, by_device)
        SELECT * FROM unnest($1::text[], $2::text[], $3::bool[]) ORDER BY 1, 2
        ON CONFLICT (handler, category) DO UPDATE SET by_device = excluded.by_device
            WHERE known.by_device <> excluded.by_device
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

    // MARK: Claims

    /// Leases the first that are due.
    ///
    /// Rows that another claim has locked are skipped. A lease that has ended without being given back counts as a
    /// crash of its holder. `OFFSET 0` keeps the look-up of each message a look-up: the planner can't know how few rows
    /// `leased` has, and must not read whole days for them.
    static let claim = PostgresStatement(claim(due: "crashes + (lease_owner IS NOT NULL)::int < 2"))

    /// Leases the first that have been in the hands of two or more workers that stopped working.
    static let claimSuspects = PostgresStatement(
        claim(due: "crashes > 0 AND crashes + (lease_owner IS NOT NULL)::int >= 2")
    )

    /// Leases the newest among those without a counted attempt.
    static let claimUntried = PostgresStatement(
        claim(due: "attempts = 0 AND crashes + (lease_owner IS NOT NULL)::int < 2", order: "next_attempt_at DESC")
    )

    private static func claim(due condition: String, order: String = "next_attempt_at") -> String {
        """
        WITH due AS MATERIALIZED (
            SELECT ctid AS place FROM upstream.deliveries
            WHERE handler = $1 AND next_attempt_at <= now() AND (lease_until IS NULL OR lease_until <= now())
                AND \(condition)
                AND (NOT $5::bool OR device_key IS NULL)
                AND NOT EXISTS (\(isPaused))
            ORDER BY \(order) LIMIT $2
            FOR UPDATE SKIP LOCKED
        ), \(leaseAndLoad)
        """
    }

    /// Serializes claims of a handler that goes by device; the claim is a statement of its own, so that it sees what the
    /// claim before it did.
    static let lockOrdered = PostgresStatement(
        "SELECT pg_advisory_xact_lock(hashtextextended('upstream.claim ' || $1::text, 0))"
    )

    /// Leases the oldest delivery of each device, going round the devices from the one after $5.
    ///
    /// Steps from device to device on the index, so that a device with a long queue costs no more than one with a short
    /// one. A device of which another delivery is leased is passed by: one that was set aside and is retried, or replayed,
    /// may be older than the one that runs. That one is looked for behind as many older ones as two replays have on their
    /// way at once.
    static let claimOrdered = PostgresStatement(claimOrdered(condition: "crashes + (lease_owner IS NOT NULL)::int < 2"))

    /// Leases the oldest delivery of a device, where it has been in the hands of workers that stopped working.
    static let claimOrderedSuspects = PostgresStatement(
        claimOrdered(condition: "crashes > 0 AND crashes + (lease_owner IS NOT NULL)::int >= 2")
    )

    /// Leases the oldest delivery of each device, where it has no counted attempt.
    static let claimOrderedUntried = PostgresStatement(
        claimOrdered(condition: "attempts = 0 AND crashes + (lease_owner IS NOT NULL)::int < 2")
    )

    private static func claimOrdered(condition: String) -> String {
        """
        WITH RECURSIVE head AS (
            (SELECT * FROM upstream.deliveries
            WHERE handler = $1 AND device_key > $5 AND NOT EXISTS (\(isPaused))
            ORDER BY device_key, received_at, message_key LIMIT 1)
            UNION ALL
            SELECT next.* FROM head CROSS JOIN LATERAL (
                SELECT * FROM upstream.deliveries
                WHERE handler = $1 AND device_key > head.device_key
                ORDER BY device_key, received_at, message_key LIMIT 1
            ) AS next
        ), chosen AS MATERIALIZED (
            SELECT message_key FROM head
            WHERE next_attempt_at <= now() AND (lease_until IS NULL OR lease_until <= now()) AND \(condition)
                AND NOT EXISTS (
                    SELECT FROM (
                        SELECT lease_until FROM upstream.deliveries AS other
                        WHERE other.handler = $1 AND other.device_key = head.device_key
                        ORDER BY received_at, message_key LIMIT 2000
                    ) AS queue WHERE lease_until > now()
                )
            LIMIT $2
        ), due AS MATERIALIZED (
            SELECT ctid AS place FROM upstream.deliveries
            WHERE handler = $1 AND message_key = ANY (ARRAY(SELECT message_key FROM chosen))
            FOR UPDATE SKIP LOCKED
        ), \(leaseAndLoad)
        """
    }

    private static let isPaused = """
        SELECT FROM upstream.handlers
        WHERE name = $1 AND paused AND (paused_until IS NULL OR paused_until > now())
        """

    private static let leaseAndLoad = """
        token AS MATERIALIZED (
            SELECT nextval('upstream.lease_tokens') AS value
        ), leased AS (
            UPDATE upstream.deliveries
            SET lease_owner = $3, lease_token = token.value, lease_until = now() + $4 * interval '1 microsecond',
                crashes = crashes + (lease_owner IS NOT NULL)::int
            FROM due, token WHERE deliveries.ctid = due.place
            RETURNING deliveries.*
        )
        SELECT
            leased.message_key, leased.lease_token, leased.attempts, leased.crashes, leased.replay_id::text,
            message.message_id, message.sender_id, message.category, message.registration_token, message.device_key,
            coalesce(message.data_raw, message.data::text), message.extra, message.message_type, leased.received_at
        FROM leased
        LEFT JOIN LATERAL (
            SELECT * FROM upstream.message_of(leased.message_key, leased.received_at) OFFSET 0
        ) AS message ON true
        ORDER BY leased.next_attempt_at, leased.received_at
        """

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
    static let complete = PostgresStatement(
        """
        WITH quick AS MATERIALIZED (
            SELECT set_config('synchronous_commit', 'off', true)
        )
        DELETE FROM upstream.deliveries
        USING unnest($2::uuid[], $3::bigint[]) AS input (key, token), quick
        WHERE \(isHeld)
        """
    )

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
        """
    )
}
