import Postgres
import UpstreamKit
import Vocabulary

enum MessageStatements {
    /// A page of messages along the primary key.
    ///
    /// A comparison of rows finds the position in the index but prunes no partition; the plain bound on `received_at` does.
    static func page(_ pager: MessagePager) -> SQL {
        let isBackwards = pager.order == .newestFirst
        var condition = pager.filter.condition()
        if let cursor = pager.cursor {
            let sign: SQL = isBackwards ? "<" : ">"
            let (time, key) = (cursor.receivedAt, cursor.messageKey.digest)
            condition = """
                \(condition) AND m.received_at \(sign)= \(time) AND (m.received_at, m.message_key) \(sign) (\(time), \(key))
                """
        }
        if let since = pager.since { condition = "\(condition) AND \(committed(since: since))" }
        let order: SQL =
            isBackwards ? "m.received_at DESC, m.message_key DESC" : "m.received_at ASC, m.message_key ASC"
        guard let byteLimit = pager.byteLimit else {
            return """
                SELECT \(MessagePage.columns()) FROM upstream.messages AS m
                WHERE \(condition) ORDER BY \(order) LIMIT \(pager.limit)
                """
        }
        return """
            SELECT \(MessagePage.columns()), m.bytes_through::bigint FROM (
                SELECT m.*, sum(m.bytes) OVER (ORDER BY \(order) ROWS UNBOUNDED PRECEDING) AS bytes_through
                FROM (
                    SELECT *, \(pager.countsVerbatim ? verbatimBytes : storedBytes) AS bytes
                    FROM upstream.messages AS m WHERE \(condition) ORDER BY \(order) LIMIT \(pager.limit)
                ) AS m
            ) AS m
            WHERE m.bytes_through - m.bytes < \(byteLimit) ORDER BY \(order)
            """
    }

    /// The size of a row `m` as stored; reads no value that is stored out of line.
    static let storedBytes: SQL = """
        (pg_column_size(m.message_id) + pg_column_size(m.registration_token)
            + coalesce(pg_column_size(m.data), pg_column_size(m.data_raw), 0)
            + coalesce(pg_column_size(m.extra), 0))::bigint
        """

    /// The uncompressed size of a row `m`; reads what is stored compressed.
    static let verbatimBytes: SQL = """
        (octet_length(m.message_id) + octet_length(m.registration_token)
            + coalesce(octet_length(m.data::text), octet_length(m.data_raw), 0)
            + coalesce(octet_length(m.extra), 0))::bigint
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

    /// The positions of a filter's messages after a cursor, oldest first, with their stored sizes.
    static func places(_ filter: MessageFilter, after cursor: MessageCursor?, limit: Int) -> SQL {
        var condition = filter.condition()
        if let cursor {
            let (time, key) = (cursor.receivedAt, cursor.messageKey.digest)
            condition =
                "\(condition) AND m.received_at >= \(time) AND (m.received_at, m.message_key) > (\(time), \(key))"
        }
        return """
            SELECT m.received_at, m.message_key, \(storedBytes) FROM upstream.messages AS m
            WHERE \(condition) ORDER BY m.received_at, m.message_key LIMIT \(limit)
            """
    }

    /// The messages at some positions, oldest first; the span prunes other partitions.
    static func at(_ places: [MessageCursor], in span: ClosedRange<Timestamp>) -> SQL {
        """
        SELECT \(MessagePage.columns()) FROM upstream.messages AS m
        WHERE m.received_at >= \(span.lowerBound) AND m.received_at <= \(span.upperBound)
            AND (m.received_at, m.message_key) IN (
                SELECT * FROM unnest(\(places.map(\.receivedAt)), \(places.map(\.messageKey.digest)))
            )
        ORDER BY m.received_at, m.message_key
        """
    }

    /// The database's time, and the oldest open transaction: all before it are visible to the next statement.
    static let moment: SQL = "SELECT clock_timestamp(), pg_snapshot_xmin(pg_current_snapshot())::text::bigint"

    /// Messages of dropped days that are kept for their dead letters; `condition` is on the row `m`.
    static func kept(where condition: SQL) -> SQL {
        let order: SQL = "m.received_at DESC, m.message_key DESC"
        return """
            SELECT \(MessagePage.columns()), m.bytes_through::bigint FROM (
                SELECT m.*, sum(m.bytes) OVER (ORDER BY \(order) ROWS UNBOUNDED PRECEDING) AS bytes_through FROM (
                    SELECT *, \(verbatimBytes) AS bytes FROM upstream.dead_messages AS m
                    WHERE \(condition) ORDER BY \(order) LIMIT \(MessageLookup.hitLimit)
                ) AS m
            ) AS m
            WHERE m.bytes_through - m.bytes < \(MessageLookup.byteLimit) ORDER BY \(order)
            """
    }

    /// The content of a released conflict, by its release key, and the key of the message it conflicts with.
    static func released(_ key: MessageKey) -> SQL {
        """
        SELECT \(MessagePage.columns()), c.message_key AS conflicts_with
        FROM upstream.conflicts AS c, upstream.message_of(\(key.digest), 'epoch') AS m
        WHERE upstream.release_key(c.message_key, c.fingerprint) = \(key.digest) AND c.released_at IS NOT NULL
        """
    }

    static func ledger(_ key: MessageKey) -> SQL {
        "SELECT fingerprint, received_at FROM upstream.message_ids WHERE message_key = \(key.digest)"
    }

    /// The first keys of the ledger in a range.
    static func keys(in range: ClosedRange<Digest128>) -> SQL {
        """
        SELECT message_key FROM upstream.message_ids
        WHERE message_key BETWEEN \(range.lowerBound) AND \(range.upperBound)
        ORDER BY message_key LIMIT \(MessageLookup.prefixLimit)
        """
    }

    static func deliveries(_ key: MessageKey) -> SQL {
        """
        SELECT
            handler, attempts, next_attempt_at, lease_owner, lease_until, last_error, replay_id, NULL::text,
            NULL::timestamptz
        FROM upstream.deliveries WHERE message_key = \(key.digest)
        UNION ALL
        SELECT handler, 0, lease_until, lease_owner, lease_until, NULL, replay_id, NULL, NULL
        FROM upstream.delivery_blocks WHERE \(key.digest) = ANY (keys)
        ORDER BY handler
        """
    }

    /// The dead letters of a message, with the columns of ``deliveries(_:)``.
    static func deadLetters(_ key: MessageKey) -> SQL {
        """
        SELECT
            handler, attempts, next_attempt_at, lease_owner, lease_until, last_error, replay_id, error_group, died_at
        FROM upstream.dead_letters WHERE message_key = \(key.digest) ORDER BY handler
        """
    }

    /// A time after every stored message, and not before the database's.
    static let end: SQL = """
        SELECT greatest(clock_timestamp(), max(received_at) + interval '1 microsecond') FROM upstream.messages
        """

    /// The start of the oldest day that has a partition.
    static let oldestDay: SQL = """
        SELECT to_date(right(min(relname), 8), 'YYYYMMDD')::timestamp AT TIME ZONE 'UTC'
        FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
        WHERE inhparent = 'upstream.messages'::regclass AND relname ~ '^messages_[0-9]{8}$'
        """

    /// The rows that a filter selects from a time on; explained, not run.
    static func selected(_ filter: MessageFilter, from start: Timestamp?) -> SQL {
        var condition = filter.condition()
        if let start { condition = "\(condition) AND m.received_at >= \(start)" }
        return "SELECT FROM upstream.messages AS m WHERE \(condition)"
    }

    static let readOnly: SQL = "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"
}
