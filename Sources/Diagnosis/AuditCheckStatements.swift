import Postgres
import Vocabulary

/// The statements of `audit`; each examines one part of the store, in its own snapshot.
enum AuditCheckStatements {
    /// Begins a part: one snapshot for all its statements.
    ///
    /// The lock precedes the snapshot, so that no day is dropped between the two; it blocks only retention, which tries
    /// again.
    static let begin: SQL = """
        SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY; SET LOCAL work_mem = '64MB'; \
        SET LOCAL max_parallel_workers_per_gather = 0; \
        SET LOCAL timezone = 'UTC'; SET LOCAL datestyle = 'ISO, YMD'; LOCK TABLE upstream.messages IN ACCESS SHARE MODE
        """

    /// The clock, the ledger's size in blocks, and the estimated number of deliveries and dead letters.
    static let extent: SQL = """
        SELECT
            clock_timestamp(),
            pg_relation_size('upstream.message_ids')::int8 / current_setting('block_size')::int8,
            (SELECT sum(greatest(reltuples, 0)) FROM pg_class
            WHERE oid IN ('upstream.deliveries'::regclass, 'upstream.dead_letters'::regclass))::int8
        """

    /// The partitions that have a beginning and an end.
    static let partitions: SQL = """
        SELECT p.relname::text, p.since, p.until FROM upstream.partitions() AS p
        WHERE isfinite(p.since) AND isfinite(p.until) ORDER BY p.since
        """

    /// The policy in force, when it was set, and the latest run of retention by a worker or a command.
    static let retention: SQL = """
        SELECT
            now() - messages, set_at,
            greatest(
                (SELECT max(finished_at) FROM upstream.retention_runs),
                (SELECT max(at) FROM upstream.audit WHERE action LIKE 'partitions.run%'))
        FROM upstream.retention_policy
        """

    /// What erasures have recorded: with each transaction, or, by earlier versions, at the end.
    static let erasures: SQL = """
        SELECT subject, coalesce(count, 0) FROM upstream.audit WHERE action IN ('forget', 'forget.finished') ORDER BY id
        """

    /// The first and the last time in a range of the ledger's blocks.
    static func span(_ blocks: Range<Int64>) -> SQL {
        "SELECT min(received_at), max(received_at) FROM upstream.message_ids WHERE \(raw: within(blocks, "message_ids"))"
    }

    private static func within(_ blocks: Range<Int64>, _ table: String) -> String {
        "\(table).ctid >= '(\(blocks.lowerBound),0)'::tid AND \(table).ctid < '(\(blocks.upperBound),0)'::tid"
    }

    /// Compares a range of the ledger's blocks with the bodies, by UTC day.
    ///
    /// Each row: ledger rows, rows with a body, rows whose body is kept for dead letters, rows of days without a
    /// partition, rows without a body, and the first of these. Only what was received within the given time counts.
    static func ledger(_ blocks: Range<Int64>, since: Timestamp, until: Timestamp) -> SQL {
        """
        WITH covered AS MATERIALIZED (
            SELECT coalesce(range_agg(tstzrange(p.since, p.until)), '{}') AS days FROM upstream.partitions() AS p
            WHERE p.since IS NOT NULL
        ), looked AS (
            SELECT
                i.message_key, i.received_at, m.message_key IS NOT NULL AS has_body, k.message_key IS NOT NULL AS is_kept,
                i.received_at <@ (SELECT days FROM covered) AS is_covered
            FROM upstream.message_ids AS i
            LEFT JOIN upstream.messages AS m
                ON m.received_at = i.received_at AND m.message_key = i.message_key
                AND m.received_at >= \(since) AND m.received_at < \(until)
            LEFT JOIN upstream.dead_messages AS k
                ON k.message_key = i.message_key AND k.received_at = i.received_at
            WHERE \(raw: within(blocks, "i")) AND i.received_at >= \(since) AND i.received_at < \(until)
        )
        SELECT
            ((received_at AT TIME ZONE 'UTC')::date - date '1970-01-01')::int8, count(*), count(*) FILTER (WHERE has_body),
            count(*) FILTER (WHERE is_kept AND NOT has_body),
            count(*) FILTER (WHERE NOT is_covered AND NOT is_kept),
            count(*) FILTER (WHERE is_covered AND NOT is_kept AND NOT has_body),
            coalesce((array_agg(message_key::text)
                FILTER (WHERE is_covered AND NOT is_kept AND NOT has_body))[1:\(raw: "\(Conservation.examples)")], '{}')
        FROM looked GROUP BY 1 ORDER BY 1
        """
    }

    /// Counts the bodies of a time span; an index alone answers it.
    static func count(since: Timestamp, until: Timestamp) -> SQL {
        "SELECT count(*) FROM upstream.messages WHERE received_at >= \(since) AND received_at < \(until)"
    }

    /// Whether an erasure runs, or ran within a day.
    static let isErasing: SQL = """
        SELECT EXISTS (SELECT FROM upstream.audit WHERE action IN ('forget', 'forget.finished') AND at > now() - interval '1 day')
        """

    /// Compares the bodies of a time span with the ledger.
    ///
    /// Bodies, those without a row there, those whose row has another time, and the first of each.
    static func bodies(since: Timestamp, until: Timestamp) -> SQL {
        let most = "[1:\(Conservation.examples)]"
        return """
            SELECT
                count(*), count(*) FILTER (WHERE known IS NULL), count(*) FILTER (WHERE known <> received_at),
                coalesce((array_agg(message_key::text) FILTER (WHERE known IS NULL))\(raw: most), '{}'),
                coalesce((array_agg(message_key::text) FILTER (WHERE known <> received_at))\(raw: most), '{}')
            FROM (
                SELECT m.message_key, m.received_at, i.received_at AS known
                FROM upstream.messages AS m LEFT JOIN upstream.message_ids AS i ON i.message_key = m.message_key
                WHERE m.received_at >= \(since) AND m.received_at < \(until)
            ) AS looked
            """
    }

    /// Deliveries, deliveries in blocks and dead letters in a range of keys: how many, how many without a message, and
    /// the first of these.
    static func queue(_ keys: ClosedRange<Digest128>, since: Timestamp, until: Timestamp) -> SQL {
        func source(_ kind: String, _ from: String, _ handler: String, _ key: String, _ time: String) -> SQL {
            """
            SELECT '\(raw: kind)' AS kind, \(raw: handler) AS handler, \(raw: key) AS key,
                EXISTS (SELECT FROM upstream.message_of(\(raw: key), \(raw: time))) AS has_message
            FROM \(raw: from)
            WHERE \(raw: key) BETWEEN \(keys.lowerBound) AND \(keys.upperBound)
                AND \(raw: time) >= \(since) AND \(raw: time) < \(until)
            """
        }
        let blocks = "upstream.delivery_blocks AS b CROSS JOIN LATERAL unnest(b.keys, b.times) AS e (key, at)"
        return """
            SELECT
                kind, count(*), count(*) FILTER (WHERE NOT has_message),
                coalesce((array_agg(handler || ' ' || key::text) FILTER (WHERE NOT has_message))\
            [1:\(raw: "\(Conservation.examples)")], '{}')
            FROM (
                \(source("delivery", "upstream.deliveries AS d", "d.handler", "d.message_key", "d.received_at"))
                UNION ALL
                \(source("dead", "upstream.dead_letters AS d", "d.handler", "d.message_key", "d.received_at"))
                UNION ALL
                \(source("block", blocks, "b.handler", "e.key", "e.at"))
            ) AS looked GROUP BY kind
            """
    }

    /// The positions, from 1, of keys that the ledger does not know.
    static func unknown(_ keys: [Digest128]) -> SQL {
        """
        SELECT place FROM unnest(\(keys)) WITH ORDINALITY AS given (key, place)
        WHERE NOT EXISTS (SELECT FROM upstream.message_ids AS i WHERE i.message_key = given.key) ORDER BY place
        """
    }

    /// What ids of each sender's messages are unique for.
    static let scopes: SQL = "SELECT sender_id, id_scope FROM upstream.senders"

    /// The positions, from 1, of ids that were quarantined; the quarantine is read once for all of them.
    static func quarantined(_ senders: [String], _ ids: [String]) -> SQL {
        """
        SELECT DISTINCT given.place
        FROM unnest(\(senders)::text[], \(ids)::text[]) WITH ORDINALITY AS given (sender, id, place)
        JOIN upstream.quarantine AS q ON q.sender_id = given.sender AND q.message_id = given.id
        ORDER BY 1
        """
    }

    /// Since when what a sender's archive got was asked for.
    static func begun(_ sender: String, _ archive: String) -> SQL {
        """
        SELECT begun_at FROM upstream.archive_points
        WHERE sender_id = \(sender) AND archive = \(archive) AND begun_at IS NOT NULL
        """
    }

    /// The time before which rows of the ledger or the quarantine may have been deleted.
    static let oldest: SQL = "SELECT now() - least(messages, dedupe_window) FROM upstream.retention_policy"
}
