import Postgres

/// The statements about the partitions of `messages`.
enum PartitionStatements {
    /// Creates the missing partitions of some days, and counts them.
    static func ensure(from first: UTCDay, to last: UTCDay) -> SQL {
        "SELECT upstream.ensure_partitions(\(first.date), \(last.date))"
    }

    /// Gives days without messages the index for lookups by id, if a sender needs it.
    static let filterIDs: SQL = "SELECT upstream.filter_ids()"

    /// The statements that build this index for the other days without blocking inserts, three for each day, newest
    /// first.
    ///
    /// They drop what an interrupted build has left.
    static let unfilteredDays: SQL = """
        SELECT
            format('DROP INDEX CONCURRENTLY IF EXISTS upstream.%I', day.index),
            format(
                'CREATE INDEX CONCURRENTLY %I ON upstream.%I %s', day.index, day.relname,
                substring(pg_get_indexdef(parent) FROM 'USING .*')
            ),
            format('ALTER INDEX upstream.messages_message_id_idx ATTACH PARTITION upstream.%I', day.index)
        FROM to_regclass('upstream.messages_message_id_idx') AS parent, (
            SELECT *, left(relname, 48) || '_message_id_idx' AS index FROM upstream.partitions()
        ) AS day
        WHERE EXISTS (SELECT FROM upstream.senders WHERE id_scope = 'device') AND NOT EXISTS (
            SELECT FROM pg_index AS x JOIN pg_inherits AS i ON i.inhrelid = x.indexrelid
            WHERE x.indrelid = day.relation AND i.inhparent = parent
        )
        ORDER BY day.since DESC
        """
}

/// The statements over the history's days; ``SettleStatements`` write it.
enum AttemptStatements {
    /// Creates the missing partitions of a span of days; -1 if that has to wait.
    static func ensure(from first: UTCDay, to last: UTCDay) -> SQL {
        "SELECT upstream.ensure_attempts(\(first.date), \(last.date))"
    }

    /// Drops the days past their retention; null if another process is doing so.
    static let purge: SQL = "SELECT dropped, locked FROM upstream.purge_attempts()"
}

extension UTCDay {
    /// An expression of type `date`.
    var date: SQL { "date '1970-01-01' + \(number)::int4" }
}
