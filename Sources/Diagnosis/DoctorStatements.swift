import MessageStore
import Postgres

/// The statements of `doctor`: catalogs, counters and small tables; of messages only the newest are read.
enum DoctorStatements {
    /// The server and the settings that matter, as the session got them.
    ///
    /// The defaults of a session are what `reset_val` says, whatever the session has set since. Ids of multixacts have a
    /// limit of their own, and count beyond it.
    static let server: SQL = """
        SELECT
            clock_timestamp(), current_setting('server_version'), pg_is_in_recovery(),
            (SELECT reset_val = 'on' FROM pg_settings WHERE name = 'default_transaction_read_only'),
            current_setting('fsync')::bool, current_setting('full_page_writes')::bool,
            (SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit'),
            current_setting('autovacuum')::bool AND current_setting('track_counts')::bool,
            current_setting('max_connections')::int8 - current_setting('superuser_reserved_connections')::int8,
            (SELECT sum(numbackends) FROM pg_stat_database)::int8,
            (SELECT max(greatest(age(datfrozenxid), CASE WHEN mxid_age(datminmxid) > late.multixacts
                THEN mxid_age(datminmxid) END)) FROM pg_database)::int8,
            current_setting('autovacuum_freeze_max_age')::int8,
            pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')
        FROM (
            SELECT least(1.5 * current_setting('autovacuum_multixact_freeze_max_age')::int8, 1500000000) AS multixacts
        ) AS late
        """

    /// The standbys that commits wait for; empty for none.
    static let standbyNames: SQL = "SELECT current_setting('synchronous_standby_names')"

    /// Sequences of which more than a share is used.
    static func sequences(beyond share: Double) -> SQL {
        """
        SELECT sequencename::text, last_value::float8 / max_value::float8
        FROM pg_sequences
        WHERE schemaname = 'upstream' AND last_value::float8 / max_value::float8 > \(raw: "\(share)") ORDER BY 1
        """
    }

    /// Indexes that no query uses, and every insert keeps; not those that are being built.
    static let invalidIndexes: SQL = """
        SELECT c.relname::text FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
        JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = 'upstream' AND c.relkind = 'i' AND NOT i.indisvalid
            AND NOT EXISTS (SELECT FROM pg_stat_progress_create_index AS p WHERE p.index_relid = i.indexrelid)
        ORDER BY 1
        """

    /// Sessions of this database, and of none, that hold a snapshot or a transaction, the oldest first.
    static let sessions: SQL = """
        SELECT
            pid::int8, coalesce(usename::text, '?'), coalesce(application_name, ''), coalesce(state, ''),
            greatest(age(backend_xmin), age(backend_xid), 0)::int8,
            extract(epoch FROM clock_timestamp() - xact_start)::float8,
            extract(epoch FROM clock_timestamp() - state_change)::float8
        FROM pg_stat_activity
        WHERE pid <> pg_backend_pid() AND (datname = current_database() OR datid IS NULL)
            AND coalesce(backend_type, '') NOT IN ('autovacuum worker', 'walsender')
            AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL OR state LIKE 'idle in transaction%')
        ORDER BY xact_start NULLS LAST, pid LIMIT 100
        """

    /// Prepared transactions of this database.
    static let prepared: SQL = """
        SELECT gid, owner::text, extract(epoch FROM clock_timestamp() - prepared)::float8
        FROM pg_prepared_xacts WHERE database = current_database() ORDER BY prepared LIMIT 100
        """

    /// Slots, the write-ahead log that each keeps, and the most that it may keep; null for no limit.
    static let slots: SQL = """
        SELECT
            slot_name::text, active, coalesce(wal_status, ''), greatest(age(xmin), age(catalog_xmin), 0)::int8,
            coalesce(CASE WHEN NOT pg_is_in_recovery()
                THEN pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn) END, 0)::int8,
            nullif(pg_size_bytes(current_setting('max_slot_wal_keep_size')), -1)
        FROM pg_replication_slots ORDER BY slot_name
        """

    /// Standbys and other receivers.
    static let standbys: SQL = """
        SELECT
            coalesce(application_name, ''), coalesce(sync_state, ''), greatest(age(backend_xmin), 0)::int8,
            extract(epoch FROM replay_lag)::float8,
            CASE WHEN NOT pg_is_in_recovery() THEN pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn) END::int8
        FROM pg_stat_replication ORDER BY 1
        """

    /// Sessions that wait for a synchronous standby, and how long the first of them does.
    static let standbyWaits: SQL = """
        SELECT count(*), coalesce(max(extract(epoch FROM clock_timestamp() - query_start)), 0)::float8
        FROM pg_stat_activity WHERE wait_event = 'SyncRep'
        """

    /// Tables with more dead rows than some number, and than half of the living ones.
    static func deadRows(beyond count: Int) -> SQL {
        """
        SELECT relname::text, n_live_tup, n_dead_tup
        FROM pg_stat_all_tables
        WHERE schemaname = 'upstream' AND n_dead_tup > \(count) AND n_dead_tup > n_live_tup / 2
        ORDER BY n_dead_tup DESC LIMIT 5
        """
    }

    /// The newest message: the last entry of an index.
    static let newest: SQL = "SELECT max(received_at) FROM upstream.messages"

    /// The senders whose newest messages have keys of both kinds: workers differ in their `id_scope`.
    ///
    /// Reads messages only where a sender has had both.
    static let mixedScopes: SQL = """
        WITH both_scopes AS MATERIALIZED (
            SELECT sender_id FROM upstream.senders GROUP BY sender_id HAVING count(*) > 1
        ), newest AS MATERIALIZED (
            SELECT sender_id, message_key = upstream.message_key(sender_id, message_id) AS is_of_sender FROM upstream.messages
            WHERE received_at > now() - interval '10 minutes' AND EXISTS (SELECT FROM both_scopes)
            ORDER BY received_at DESC LIMIT 1000
        )
        SELECT sender_id FROM newest WHERE sender_id IN (SELECT sender_id FROM both_scopes)
        GROUP BY sender_id HAVING bool_or(is_of_sender) AND NOT bool_and(is_of_sender) ORDER BY sender_id
        """

    /// Since when handlers are paused.
    static let paused: SQL = """
        SELECT name, extract(epoch FROM clock_timestamp() - paused_at)::float8 FROM upstream.handlers
        WHERE \(raw: HandlerStatements.isPaused) AND paused_at IS NOT NULL
        """

    static func died(within time: Duration, counted limit: Int) -> SQL {
        """
        SELECT count(*) FROM (
            SELECT FROM upstream.dead_letters WHERE died_at > now() - \(time) LIMIT \(limit)
        ) AS counted
        """
    }

    /// Whether attempts lie in no day's partition, by the counters: the partition itself few roles may read.
    static let hasUndatedAttempts: SQL = """
        SELECT pg_stat_get_live_tuples('upstream.attempt_batches_rest'::regclass) > 0
        """

    static let ledger: SQL = "SELECT pg_total_relation_size('upstream.message_ids')::int8"

    /// The messages of the last hour, newest first and counted up to a limit, and the seconds over which they came.
    static func lastHour(counted limit: Int) -> SQL {
        """
        SELECT count(*),
            CASE WHEN count(*) < \(limit) THEN 3600 ELSE extract(epoch FROM now() - min(received_at)) END::float8
        FROM (
            SELECT received_at FROM upstream.messages
            WHERE received_at > now() - interval '1 hour' AND received_at <= now()
            ORDER BY received_at DESC LIMIT \(limit)
        ) AS newest
        """
    }

    /// The roles that workers work as, by their rows; and the session's own, where it may be a worker's.
    static let workerRoles: SQL = """
        SELECT r.rolname::text FROM pg_roles AS r
        WHERE r.rolname IN (SELECT role FROM upstream.workers)
            OR r.rolname = current_user AND to_regrole('upstream_worker') IS NOT NULL
                AND pg_has_role(r.oid, to_regrole('upstream_worker'), 'MEMBER')
        ORDER BY 1
        """

    /// The limits of workers' roles and of the database, and how many sessions there are.
    static let connectionLimits: SQL = """
        SELECT 'role', r.rolname::text, r.rolconnlimit::int8,
            (SELECT count(*) FROM pg_stat_activity AS a WHERE a.usesysid = r.oid)
        FROM pg_roles AS r
        WHERE r.rolconnlimit >= 0 AND NOT r.rolsuper
            AND (r.rolname = current_user OR r.rolname IN (SELECT role FROM upstream.workers))
        UNION ALL
        SELECT 'database', d.datname, d.datconnlimit, s.numbackends
        FROM pg_database AS d JOIN pg_stat_database AS s ON s.datid = d.oid
        WHERE d.datname = current_database() AND d.datconnlimit >= 0
        ORDER BY 1, 2
        """

    /// Sessions that keep writers out of a table of ours, or that ours wait for, unless they wait themselves.
    ///
    /// Locks, who waits for whom, and since when, any role may see; of another role's transaction few may.
    static let locks: SQL = """
        WITH strong AS (
            SELECT l.pid, string_agg(DISTINCT 'upstream.' || c.relname, ', ' ORDER BY 'upstream.' || c.relname) AS tables
            FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation
            JOIN pg_database AS d ON d.oid = l.database AND d.datname = current_database()
            WHERE l.granted AND c.relnamespace = to_regnamespace('upstream') AND c.relkind IN ('r', 'p')
                AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
            GROUP BY l.pid
        ), waits AS (
            SELECT
                blocker AS pid, count(*) AS sessions, max(extract(epoch FROM clock_timestamp() - w.waitstart)) AS longest
            FROM pg_locks AS w JOIN pg_stat_activity AS a USING (pid) LEFT JOIN pg_class AS c ON c.oid = w.relation
            CROSS JOIN LATERAL unnest(pg_blocking_pids(w.pid)) AS blocker
            WHERE NOT w.granted AND w.locktype <> 'virtualxid' AND a.datname = current_database()
                AND (a.application_name LIKE 'upstream%' OR c.relnamespace = to_regnamespace('upstream'))
            GROUP BY blocker
        )
        SELECT
            a.pid::int8, coalesce(a.usename::text, '?'), coalesce(a.application_name, ''), s.tables,
            coalesce(w.sessions, 0), coalesce(w.longest, 0)::float8,
            extract(epoch FROM clock_timestamp() - a.xact_start)::float8
        FROM pg_stat_activity AS a LEFT JOIN strong AS s USING (pid) LEFT JOIN waits AS w USING (pid)
        WHERE (s.pid IS NOT NULL OR w.pid IS NOT NULL) AND a.pid <> pg_backend_pid()
            AND NOT EXISTS (SELECT FROM pg_locks AS own WHERE own.pid = a.pid AND NOT own.granted)
        ORDER BY coalesce(w.sessions, 0) DESC, a.pid LIMIT 20
        """

    /// How long the server has been up.
    static let uptime: SQL = """
        SELECT extract(epoch FROM clock_timestamp() - pg_postmaster_start_time())::float8
        """

    /// New rows of a table with `received_at` in the last hour, and in the 24 hours before it, each counted up to a limit.
    static func arrivals(_ table: OddTable, counted limit: Int) -> SQL {
        """
        SELECT
            (SELECT count(*) FROM (
                SELECT FROM upstream.\(raw: table.rawValue)
                WHERE received_at > now() - interval '1 hour' LIMIT \(limit)
            ) AS counted),
            (SELECT count(*) FROM (
                SELECT FROM upstream.\(raw: table.rawValue)
                WHERE received_at > now() - interval '25 hours' AND received_at <= now() - interval '1 hour' LIMIT \(limit)
            ) AS counted)
        """
    }

    /// The tables of odd messages.
    enum OddTable: String {
        case quarantine
        case conflicts
    }
}
