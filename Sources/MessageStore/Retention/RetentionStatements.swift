/// The statements of retention; what deletes is a function of `migrations/0004_retention.sql`.
enum RetentionStatements {
    /// The rows of a table of `pg_class`, estimated; -1 where nothing is known.
    ///
    /// What VACUUM and ANALYZE left, and the counters' word for a table that neither has seen with rows in it: by
    /// themselves the counters are zero after a crash of the server, and too high where a writer tells them late.
    static func rows(of table: String) -> String {
        "(CASE WHEN \(table).reltuples > 0 THEN \(table).reltuples::bigint "
            + "ELSE greatest(\(table).reltuples::bigint, pg_stat_get_live_tuples(\(table).oid)) END)"
    }

    /// The partitions.
    static let partitions = """
        SELECT relname, \(rows(of: "pg_class")), pg_total_relation_size(oid)
        FROM pg_inherits JOIN pg_class ON oid = inhrelid
        WHERE inhparent = 'upstream.messages'::regclass
        ORDER BY relname
        """

    /// What needs the bodies of days from before $1, by day.
    static let needs = """
        SELECT (day - date '1970-01-01')::bigint, sum(waiting)::bigint, sum(dead)::bigint
        FROM (
            SELECT (received_at AT TIME ZONE 'UTC')::date AS day, 1 AS waiting, 0 AS dead
            FROM upstream.deliveries WHERE received_at < $1
            UNION ALL
            SELECT (received_at AT TIME ZONE 'UTC')::date, 0, 1
            FROM upstream.dead_letters WHERE received_at < $1
        ) AS needs
        GROUP BY day
        """

    /// The ledger's rows, and those from before $1 by what ANALYZE sampled: the commonest times by their frequency, the
    /// others by the share of the histogram that lies before.
    static let ledger = """
        SELECT nullif(\(rows(of: "pg_class")), -1), (greatest(reltuples, 0) * share)::bigint
        FROM pg_class LEFT JOIN (
            SELECT common.share + (1 - common.whole) * coalesce(rest.share, 0) AS share
            FROM pg_stats
            CROSS JOIN LATERAL (
                SELECT coalesce(sum(frequency) FILTER (WHERE value < $1), 0) AS share, coalesce(sum(frequency), 0) AS whole
                FROM unnest(most_common_vals::text::timestamptz[], most_common_freqs) AS common (value, frequency)
            ) AS common
            CROSS JOIN LATERAL (
                SELECT CASE
                    WHEN count(*) FILTER (WHERE bound < $1) IN (0, count(*)) THEN (count(*) FILTER (WHERE bound < $1) > 0)::int
                    ELSE (count(*) FILTER (WHERE bound < $1) - 0.5) / (count(*) - 1)
                END AS share
                FROM unnest(histogram_bounds::text::timestamptz[]) AS bound
            ) AS rest
            WHERE schemaname = 'upstream' AND tablename = 'message_ids' AND attname = 'received_at'
        ) AS sampled ON true
        WHERE oid = 'upstream.message_ids'::regclass
        """

    /// Conflicts and quarantined stanzas from before $1.
    static let odd = """
        SELECT
            (SELECT count(*) FROM upstream.conflicts WHERE received_at < $1 AND last_seen_at < $1),
            (SELECT count(*) FROM upstream.quarantine WHERE received_at < $1 AND last_seen_at < $1)
        """

    /// The blocks of the ledger.
    static let ledgerBlocks =
        "SELECT pg_relation_size('upstream.message_ids') / current_setting('block_size')::bigint"

    static let drop = "SELECT * FROM upstream.drop_partition(date '1970-01-01' + $1::int8::int4)"

    /// Gives up what still needs a day.
    static let discardNeeds = """
        WITH waiting AS (
            DELETE FROM upstream.deliveries WHERE received_at >= $1 AND received_at < $2 RETURNING 1
        ), dead AS (
            DELETE FROM upstream.dead_letters WHERE received_at >= $1 AND received_at < $2 RETURNING 1
        )
        SELECT (SELECT count(*) FROM waiting), (SELECT count(*) FROM dead)
        """

    static let lastRun = "SELECT max(started_at) FROM upstream.retention_runs"

    static let record = """
        INSERT INTO upstream.retention_runs (
            finished_at, started_at, partitions_dropped, partitions_held, ids_deleted, conflicts_deleted, quarantine_deleted
        )
        VALUES (clock_timestamp(), $1, $2, $3, $4, $5, $6)
        """

    static let purgeLedger = "SELECT upstream.purge_message_ids($1, $2, $3::int8::int4)"
    static let purgeConflicts = "SELECT upstream.purge_conflicts($1, $2::int8::int4)"
    static let purgeQuarantine = "SELECT upstream.purge_quarantine($1, $2::int8::int4)"
}
