/// The statements of retention; what deletes is a function of `migrations/0009_retention_policy.sql`.
enum RetentionStatements {
    /// The rows of a table of `pg_class`, estimated; -1 where nothing is known.
    ///
    /// What VACUUM and ANALYZE left, and the counters' word for a table that neither has seen with rows in it: by
    /// themselves the counters are zero after a crash of the server, and too high where a writer tells them late.
    static func rows(of table: String) -> String {
        "(CASE WHEN \(table).reltuples > 0 THEN \(table).reltuples::bigint "
            + "ELSE greatest(\(table).reltuples::bigint, pg_stat_get_live_tuples(\(table).oid)) END)"
    }

    /// The partitions that have a beginning and an end.
    static let partitions = """
        SELECT p.relname, \(rows(of: "pg_class")), pg_total_relation_size(pg_class.oid), p.since, p.until
        FROM upstream.partitions() AS p JOIN pg_class ON pg_class.oid = p.relation
        WHERE isfinite(p.since) AND isfinite(p.until)
        ORDER BY p.since
        """

    /// What asks for the bodies of days from before $1, by day.
    static let needs = """
        SELECT (day - date '1970-01-01')::bigint, sum(waiting)::bigint, sum(dead)::bigint
        FROM (
            SELECT (received_at AT TIME ZONE 'UTC')::date AS day, 1 AS waiting, 0 AS dead
            FROM upstream.deliveries AS d
            WHERE received_at < $1 AND NOT EXISTS (
                SELECT FROM upstream.dead_messages AS k
                WHERE k.message_key = d.message_key AND k.received_at = d.received_at)
            UNION ALL
            SELECT (received_at AT TIME ZONE 'UTC')::date, 0, 1
            FROM upstream.dead_letters WHERE received_at < $1
        ) AS needs
        GROUP BY day
        """

    /// Now, in a session that writes times in a form which it reads again as the same times: the samples of ANALYZE can be
    /// had as text only.
    static let begin = "SET LOCAL datestyle = 'ISO, YMD'; SET LOCAL timezone = 'UTC'"
    static let now = "SELECT now()"
    static let clock = "SELECT clock_timestamp()"

    private static func microseconds(_ column: String) -> String { "(extract(epoch FROM \(column)) * 1e6)::bigint" }

    /// The policy in force.
    static let policy = """
        SELECT
            \(["messages", "dedupe_window", "dead_letters", "attempts"].map(microseconds).joined(separator: ", ")),
            set_by, \(microseconds("clock_timestamp() - set_at")), set_at
        FROM upstream.retention_policy
        """

    /// Calls a function that takes the four times of a policy, and counts what it has changed.
    static func setting(_ function: String) -> String {
        let times = (1...4).map { "justify_hours($\($0) * interval '1 microsecond')" }.joined(separator: ", ")
        return "SELECT count(*) FROM upstream.\(function)(\(times))"
    }

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

    /// Conflicts and quarantined stanzas from before $1, dead letters from before $2.
    static let odd = """
        SELECT
            (SELECT count(*) FROM upstream.conflicts WHERE received_at < $1 AND last_seen_at < $1),
            (SELECT count(*) FROM upstream.quarantine WHERE received_at < $1 AND last_seen_at < $1),
            (SELECT count(*) FROM upstream.dead_letters WHERE died_at < $2)
        """

    /// The blocks of a table.
    static func blocks(of table: String) -> String {
        "SELECT pg_relation_size('upstream.\(table)') / current_setting('block_size')::bigint"
    }

    private static let day = "date '1970-01-01' + $1::int8::int4"
    static let keep = "SELECT upstream.keep_dead_messages(\(day), $2::int8::int4)"
    static let drop = "SELECT * FROM upstream.drop_partition(\(day))"

    /// Gives up deliveries that still need a partition.
    static let discardNeeds = """
        WITH waiting AS (
            DELETE FROM upstream.deliveries AS d
            WHERE received_at >= $1 AND received_at < $2 AND NOT EXISTS (
                SELECT FROM upstream.dead_messages AS k
                WHERE k.message_key = d.message_key AND k.received_at = d.received_at)
            RETURNING 1
        )
        SELECT count(*) FROM waiting
        """

    /// The last complete run; one that a wrong clock put into the future says nothing.
    static let lastRun = "SELECT max(started_at) FROM upstream.retention_runs WHERE started_at <= now()"
    static let isDue = """
        SELECT NOT EXISTS (
            SELECT FROM upstream.retention_runs
            WHERE started_at <= now() AND (started_at AT TIME ZONE 'UTC')::date = (now() AT TIME ZONE 'UTC')::date
        )
        """

    static let record = """
        INSERT INTO upstream.retention_runs (
            finished_at, started_at, partitions_dropped, partitions_held, ids_deleted, conflicts_deleted,
            quarantine_deleted, dead_letters_deleted
        )
        VALUES (clock_timestamp(), $1, $2, $3, $4, $5, $6, $7)
        """

    static let purgeLedger = "SELECT upstream.purge_message_ids($1, $2::int8::int4)"
    static let purgeDeadMessages = "SELECT upstream.purge_dead_messages($1, $2::int8::int4)"
    static let purgeConflicts = "SELECT upstream.purge_conflicts($1::int8::int4)"
    static let purgeQuarantine = "SELECT upstream.purge_quarantine($1::int8::int4)"
    static let purgeDeadLetters = "SELECT upstream.purge_dead_letters($1::int8::int4)"
}
