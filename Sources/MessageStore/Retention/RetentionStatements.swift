import Postgres
import Vocabulary

/// The statements of retention; `migrations/0104_retention.sql` has the function that deletes.
enum RetentionStatements {
    /// The estimated rows of a table of `pg_class`; -1 if unknown.
    ///
    /// From VACUUM and ANALYZE, or from the counters if neither has seen rows yet: after a crash of the server the
    /// counters are zero, and a writer that reports late makes them too high.
    static func rows(of table: String) -> String {
        "(CASE WHEN \(table).reltuples > 0 THEN \(table).reltuples::bigint "
            + "ELSE greatest(\(table).reltuples::bigint, pg_stat_get_live_tuples(\(table).oid)) END)"
    }

    // MARK: The plan

    /// The partitions with a lower and an upper bound.
    static let partitions: SQL = """
        SELECT p.relname, nullif(\(raw: rows(of: "pg_class")), -1) AS rows, pg_total_relation_size(pg_class.oid) AS bytes,
            p.since, p.until
        FROM upstream.partitions() AS p JOIN pg_class ON pg_class.oid = p.relation
        WHERE isfinite(p.since) AND isfinite(p.until)
        ORDER BY p.since
        """

    /// What waits for the bodies of days before a time, with its holder: a handler, or a replay that has begun.
    ///
    /// Rows and replays are counted up to a limit each, nil for none.
    private static func waiting(before end: Timestamp, counted limit: Int?) -> SQL {
        """
        (SELECT handler AS holder, received_at AS at
        FROM upstream.deliveries AS d
        WHERE received_at < \(end) AND NOT EXISTS (
            SELECT FROM upstream.dead_messages AS k
            WHERE k.message_key = d.message_key AND k.received_at = d.received_at) LIMIT \(limit))
        UNION ALL
        SELECT handler, at FROM upstream.delivery_blocks CROSS JOIN LATERAL unnest(times) AS at WHERE at < \(end)
        UNION ALL
        (SELECT 'replay ' || r.name, entry.at
        FROM upstream.replays AS r JOIN upstream.replay_messages AS chosen USING (replay_id)
        CROSS JOIN LATERAL unnest(chosen.received_at) WITH ORDINALITY AS entry (at, number)
        WHERE r.state IN ('running', 'paused') AND r.first_received_at < \(end)
            AND chosen.chunk >= r.done / 1000 AND chosen.chunk::bigint * 1000 + entry.number > r.done
            AND entry.at < \(end) LIMIT \(limit))
        """
    }

    /// What needs the bodies of days before a time, by day; each kind is counted up to a limit, nil for none.
    static func needs(before end: Timestamp, counted limit: Int? = nil) -> SQL {
        """
        SELECT (day - date '1970-01-01')::bigint, sum(waiting)::bigint, sum(dead)::bigint
        FROM (
            SELECT (at AT TIME ZONE 'UTC')::date AS day, 1 AS waiting, 0 AS dead
            FROM (\(waiting(before: end, counted: limit))) AS waiting
            UNION ALL
            (SELECT (received_at AT TIME ZONE 'UTC')::date, 0, 1
            FROM upstream.dead_letters WHERE received_at < \(end) LIMIT \(limit))
        ) AS needs
        GROUP BY day
        """
    }

    /// The five that have the most waiting for the bodies of days before a time.
    static func holders(before end: Timestamp, counted limit: Int) -> SQL {
        """
        SELECT holder, count(*) FROM (\(waiting(before: end, counted: limit))) AS waiting
        GROUP BY holder ORDER BY count(*) DESC, holder LIMIT 5
        """
    }

    /// ANALYZE's samples are available only as text, so times must be written in a form that reads back the same.
    static let begin = "SET LOCAL datestyle = 'ISO, YMD'; SET LOCAL timezone = 'UTC'"
    static let now: SQL = "SELECT now()"

    /// The ledger's rows, and how many are from before a time, by ANALYZE's sample.
    ///
    /// The most common times count by their frequency, the others by the histogram's share before.
    static func ledger(before end: Timestamp) -> SQL {
        """
        SELECT nullif(\(raw: rows(of: "pg_class")), -1), (greatest(reltuples, 0) * share)::bigint
        FROM pg_class LEFT JOIN (
            SELECT common.share + (1 - common.whole) * coalesce(rest.share, 0) AS share
            FROM pg_stats
            CROSS JOIN (SELECT \(end) AS moment) AS given
            CROSS JOIN LATERAL (
                SELECT coalesce(sum(frequency) FILTER (WHERE value < moment), 0) AS share,
                    coalesce(sum(frequency), 0) AS whole
                FROM unnest(most_common_vals::text::timestamptz[], most_common_freqs) AS common (value, frequency)
            ) AS common
            CROSS JOIN LATERAL (
                SELECT CASE
                    WHEN count(*) FILTER (WHERE bound < moment) IN (0, count(*))
                        THEN (count(*) FILTER (WHERE bound < moment) > 0)::int
                    ELSE (count(*) FILTER (WHERE bound < moment) - 0.5) / (count(*) - 1)
                END AS share
                FROM unnest(histogram_bounds::text::timestamptz[]) AS bound
            ) AS rest
            WHERE schemaname = 'upstream' AND tablename = 'message_ids' AND attname = 'received_at'
        ) AS sampled ON true
        WHERE oid = 'upstream.message_ids'::regclass
        """
    }

    /// Counts conflicts and quarantined stanzas with expired bodies, and expired dead letters, each up to a limit; nil
    /// for none.
    static func expired(bodies: Timestamp, deadLetters: Timestamp, counted limit: Int? = nil) -> SQL {
        func count(_ table: String, _ condition: SQL) -> SQL {
            "(SELECT count(*) FROM (SELECT FROM upstream.\(raw: table) WHERE \(condition) LIMIT \(limit)) AS counted)"
        }
        let isOld: SQL = "received_at < \(bodies) AND last_seen_at < \(bodies)"
        return """
            SELECT
                \(count("conflicts", isOld)), \(count("quarantine", isOld)),
                \(count("dead_letters", "died_at < \(deadLetters)"))
            """
    }

    // MARK: The policy

    /// An interval in microseconds alone.
    private static func flat(_ interval: String) -> String {
        "(extract(epoch FROM \(interval)) * 1e6)::bigint * interval '1 microsecond'"
    }

    static let policy: SQL = """
        SELECT
            \(raw: ["messages", "dedupe_window", "dead_letters", "attempts"].map(flat).joined(separator: ", ")),
            set_by, \(raw: flat("clock_timestamp() - set_at")), set_at
        FROM upstream.retention_policy
        """

    /// Lengthens the policy's times, and counts the changes.
    static func raise(to policy: RetentionPolicy) -> SQL {
        "SELECT count(*) FROM upstream.raise_retention(\(times(policy)))"
    }

    /// Sets the policy, and counts the changes.
    static func set(_ policy: RetentionPolicy) -> SQL {
        "SELECT count(*) FROM upstream.set_retention(\(times(policy)))"
    }

    private static func times(_ policy: RetentionPolicy) -> SQL {
        let times = [policy.messages, policy.dedupeWindow, policy.deadLetters, policy.attempts].map { time -> SQL in
            "justify_hours(\(time.microseconds) * interval '1 microsecond')"
        }
        return .joined(times, separator: ", ")
    }

    // MARK: The run

    static func blocks(of table: Purge.Table) -> SQL {
        "SELECT pg_relation_size('upstream.\(raw: table.rawValue)') / current_setting('block_size')::bigint"
    }

    /// Copies what a day's dead letters need; null if another process is running retention.
    static func keep(_ day: UTCDay, rows: Int64) -> SQL {
        "SELECT upstream.keep_dead_messages(\(day.date), \(rows)::int4)"
    }

    static func drop(_ day: UTCDay) -> SQL { "SELECT * FROM upstream.drop_partition(\(day.date))" }

    /// Deletes deliveries that still need a partition.
    static func discardNeeds(from start: Timestamp, to end: Timestamp) -> SQL {
        """
        WITH waiting AS (
            DELETE FROM upstream.deliveries AS d
            WHERE received_at >= \(start) AND received_at < \(end) AND NOT EXISTS (
                SELECT FROM upstream.dead_messages AS k
                WHERE k.message_key = d.message_key AND k.received_at = d.received_at)
            RETURNING 1
        )
        SELECT count(*) FROM waiting
        """
    }

    /// The last complete run; one in the future, from a wrong clock, is ignored.
    static let lastRun: SQL = "SELECT max(started_at) FROM upstream.retention_runs WHERE started_at <= now()"
    static let isDue: SQL = """
        SELECT NOT EXISTS (
            SELECT FROM upstream.retention_runs
            WHERE started_at <= now() AND (started_at AT TIME ZONE 'UTC')::date = (now() AT TIME ZONE 'UTC')::date
        )
        """

    static func record(_ report: RetentionReport, _ start: Timestamp) -> SQL {
        """
        INSERT INTO upstream.retention_runs (
            finished_at, started_at, partitions_dropped, partitions_held, ids_deleted, conflicts_deleted,
            quarantine_deleted, dead_letters_deleted
        )
        VALUES (
            clock_timestamp(), \(start), \(report.dropped.count), \(report.held.count), \(report.ledger),
            \(report.conflicts), \(report.quarantine), \(report.deadLetters)
        )
        """
    }

    /// Functions that delete expired rows: some at once, or those of some blocks of a table.
    enum Purge {
        /// A table purged block by block.
        enum Table: String, CaseIterable, Sendable {
            case ledger = "message_ids"
            case deadMessages = "dead_messages"
        }

        /// A table with an index on expired rows.
        enum Rows: String, CaseIterable, Sendable {
            case conflicts = "purge_conflicts"
            case quarantine = "purge_quarantine"
            case deadLetters = "purge_dead_letters"
            case audit = "purge_audit"
            case erasures = "purge_erasures"
        }
    }

    /// Purges some blocks of a table; null if another process is running retention.
    static func purge(_ table: Purge.Table, from block: Int64, blocks: Int64) -> SQL {
        "SELECT upstream.purge_\(raw: table.rawValue)(\(block), \(blocks)::int4)"
    }

    /// Purges some rows; null if another process is running retention.
    static func purge(_ what: Purge.Rows, rows: Int64) -> SQL {
        "SELECT upstream.\(raw: what.rawValue)(\(rows)::int4)"
    }
}
