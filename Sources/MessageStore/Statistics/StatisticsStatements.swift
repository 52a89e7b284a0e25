import Postgres

enum StatisticsStatements {
    /// The newest message is an index's last entry, not a count.
    static let head: SQL = """
        SELECT clock_timestamp(), pg_database_size(current_database()), (SELECT max(received_at) FROM upstream.messages)
        """

    /// Partitions are summed under their table's name.
    static let tables: SQL = """
        SELECT
            coalesce(parent.relname, c.relname)::text,
            sum(nullif(\(raw: RetentionStatements.rows(of: "c")), -1))::bigint,
            sum(pg_total_relation_size(c.oid))::bigint,
            sum(pg_stat_get_tuples_inserted(c.oid))::bigint,
            sum(pg_stat_get_tuples_updated(c.oid))::bigint,
            sum(pg_stat_get_tuples_deleted(c.oid))::bigint
        FROM pg_class AS c
        LEFT JOIN pg_inherits ON inhrelid = c.oid
        LEFT JOIN pg_class AS parent ON parent.oid = inhparent
        WHERE c.relnamespace = 'upstream'::regnamespace AND c.relkind = 'r'
        GROUP BY 1 ORDER BY 1
        """

    /// The most common categories by ANALYZE's samples, weighted with the partitions' rows.
    static func categories(_ count: Int) -> SQL {
        """
        SELECT value, sum(frequency * greatest(c.reltuples, 0))::bigint AS rows
        FROM pg_inherits JOIN pg_class AS c ON c.oid = inhrelid
        JOIN pg_stats ON schemaname = 'upstream' AND tablename = c.relname AND attname = 'category'
        CROSS JOIN unnest(most_common_vals::text::text[], most_common_freqs) AS common (value, frequency)
        WHERE inhparent = 'upstream.messages'::regclass
        GROUP BY value ORDER BY rows DESC, value LIMIT \(count)
        """
    }
}

enum SenderStatements {
    /// The senders with messages, by id.
    static let list: SQL = """
        SELECT sender_id, array_agg(id_scope ORDER BY id_scope) FROM upstream.senders
        GROUP BY sender_id ORDER BY sender_id LIMIT 10000
        """
}
