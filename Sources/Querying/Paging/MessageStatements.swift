import Postgres
import UpstreamKit
import Vocabulary

enum MessageStatements {
    /// A page of messages along the primary key.
    ///
    /// A comparison of rows finds the position in the index but prunes no partition; the plain bound on `received_at` does.
    static func page(_ pager: MessagePager) -> SQL {
        let isBackwards = pager.order == .newestFirst
        var condition = condition(pager.filter, after: pager.cursor, isBackwards ? "<" : ">")
        if let since = pager.since { condition = "\(condition) AND \(committed(since: since))" }
        let order: SQL =
            isBackwards ? "m.received_at DESC, m.message_key DESC" : "m.received_at ASC, m.message_key ASC"
        return bounded(
            MessagePage.columns,
            from: "upstream.messages",
            where: condition,
            order,
            limit: pager.asked,
            bytes: verbatimBytes,
            upTo: pager.byteLimit
        )
    }

    /// A filter's messages behind a cursor, in the direction of `sign`.
    private static func condition(_ filter: MessageFilter, after cursor: MessageCursor?, _ sign: SQL) -> SQL {
        guard let cursor else { return filter.condition() }
        let (time, key) = (cursor.receivedAt, cursor.messageKey.digest)
        return """
            \(filter.condition()) AND m.received_at \(sign)= \(time)
            AND (m.received_at, m.message_key) \(sign) (\(time), \(key))
            """
    }

    /// Columns of the first rows `m`, up to the one that takes them past a number of bytes, and the bytes up to each.
    static func bounded(
        _ columns: SQL,
        from table: SQL,
        where condition: SQL,
        _ order: SQL,
        limit: Int,
        bytes: SQL,
        upTo byteLimit: Int
    ) -> SQL {
        """
        SELECT \(columns), m.bytes_through::bigint FROM (
            SELECT m.*, sum(m.bytes) OVER (ORDER BY \(order) ROWS UNBOUNDED PRECEDING) AS bytes_through FROM (
                SELECT *, \(bytes) AS bytes FROM \(table) AS m WHERE \(condition) ORDER BY \(order) LIMIT \(limit)
            ) AS m
        ) AS m
        WHERE m.bytes_through - m.bytes < \(byteLimit) ORDER BY \(order)
        """
    }

    /// The uncompressed size of a row `m`, which is what it takes of memory; of bodies it reads those that are compressed.
    static let verbatimBytes: SQL = """
        (octet_length(m.message_id) + octet_length(m.registration_token) + coalesce(octet_length(m.extra), 0) + CASE
            WHEN m.data IS NULL THEN coalesce(octet_length(m.data_raw), 0)
            WHEN pg_column_compression(m.data) IS NULL THEN pg_column_size(m.data)
            ELSE octet_length(m.data::text)
        END)::bigint
        """

    /// What may have committed since a follower's position, and all that was received after it.
    ///
    /// The subtraction is modulo 2^32, as transaction numbers are: right unless two billion transactions ended within
    /// the overlap.
    private static func committed(since position: TailPosition) -> SQL {
        """
        m.received_at >= \(position.at - position.overlap) AND (
            m.received_at > \(position.at) OR ((m.xmin::text::bigint - \(position.transaction)) & 4294967295) < 2147483648
        )
        """
    }

    /// The positions of a filter's messages after a cursor, oldest first.
    static func places(_ filter: MessageFilter, after cursor: MessageCursor?, limit: Int) -> SQL {
        """
        SELECT m.received_at, m.message_key FROM upstream.messages AS m
        WHERE \(condition(filter, after: cursor, ">")) ORDER BY m.received_at, m.message_key LIMIT \(limit)
        """
    }

    /// The first messages at some positions, oldest first; the span prunes other partitions.
    static func at(_ places: [MessageCursor], in span: ClosedRange<Timestamp>, upTo byteLimit: Int) -> SQL {
        bounded(
            MessagePage.columns,
            from: "upstream.messages",
            where: """
                m.received_at >= \(span.lowerBound) AND m.received_at <= \(span.upperBound)
                    AND (m.received_at, m.message_key) IN (
                        SELECT * FROM unnest(\(places.map(\.receivedAt)), \(places.map(\.messageKey.digest)))
                    )
                """,
            "m.received_at, m.message_key",
            limit: places.count,
            bytes: verbatimBytes,
            upTo: byteLimit
        )
    }

    /// The time until which commits can be seen: the database's, on a standby that of what it has replayed.
    ///
    /// By its own clock a follower would leave behind what commits on the primary and is replayed later.
    private static let present: SQL =
        "CASE WHEN pg_is_in_recovery() THEN \(ReadLag.replayedUntil) ELSE clock_timestamp() END"

    /// The present, and the oldest open transaction: all before it are visible to the next statement.
    static let moment: SQL = "SELECT \(present), pg_snapshot_xmin(pg_current_snapshot())::text::bigint"

    /// A time after every stored message, and not before the present.
    static let end: SQL = """
        SELECT greatest(\(present), max(received_at) + interval '1 microsecond') FROM upstream.messages
        """

    /// The start of the oldest partition, whatever it is called; 2000 if it reaches back without end.
    static let oldestDay: SQL = """
        SELECT CASE WHEN count(since) > 0 THEN greatest(min(since), timestamptz '2000-01-01 00:00:00+00') END
        FROM upstream.partitions()
        """

    /// The rows that a filter selects from a time on; explained, not run.
    static func selected(_ filter: MessageFilter, from start: Timestamp?) -> SQL {
        var condition = filter.condition()
        if let start { condition = "\(condition) AND m.received_at >= \(start)" }
        return "SELECT FROM upstream.messages AS m WHERE \(condition)"
    }

    static let readOnly: SQL = "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"
}
