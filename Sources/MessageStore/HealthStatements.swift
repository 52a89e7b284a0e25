import Postgres

enum HealthStatements {
    /// Whether the server takes no writes.
    static let isReadOnly: SQL = "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::bool"

    /// The settings that decide what a commit survives.
    static let durability: SQL = """
        SELECT current_setting('synchronous_standby_names'), (SELECT count(*) FROM pg_stat_replication),
            current_setting('fsync')::bool, current_setting('full_page_writes')::bool,
            -- What a session begins with: ours ask for another.
            (SELECT reset_val FROM pg_settings WHERE name = 'client_min_messages')
        """

    /// The server's upkeep.
    ///
    /// How many days after today have a partition without a gap; when the last complete run of retention began, and how
    /// many expired partitions it had to keep; the age of the oldest transaction id.
    static let upkeep: SQL = """
        WITH covered AS MATERIALIZED (SELECT since, until FROM upstream.partitions() WHERE NOT is_detaching),
        days AS (
            SELECT
                number,
                ((now() AT TIME ZONE 'UTC')::date + number)::timestamp AT TIME ZONE 'UTC' AS since,
                ((now() AT TIME ZONE 'UTC')::date + number + 1)::timestamp AT TIME ZONE 'UTC' AS until
            FROM generate_series(1, 400) AS number
        )
        SELECT
            (
                SELECT coalesce(min(number), 401) - 1 FROM days WHERE NOT EXISTS (
                    SELECT FROM covered WHERE covered.since <= days.since AND covered.until >= days.until
                )
            )::int8,
            run.started_at, coalesce(run.partitions_held, 0)::int8,
            (SELECT max(greatest(age(datfrozenxid), mxid_age(datminmxid))) FROM pg_database)::int8
        FROM (SELECT) AS one LEFT JOIN (
            SELECT started_at, partitions_held FROM upstream.retention_runs WHERE started_at <= now()
            ORDER BY started_at DESC LIMIT 1
        ) AS run ON true
        """
}
