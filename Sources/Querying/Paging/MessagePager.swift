package import Postgres
import UpstreamKit

/// Reads messages page by page along the primary key.
///
/// No page depends on how many came before it, and rows that arrive meanwhile move no other row to another page: what is
/// newer than the first page's start is not seen by pages that go back, and what commits behind the cursor of pages that
/// go forward is not seen by them (``MessageTail`` sees it).
package struct MessagePager: Sendable {
    /// Which messages.
    package var filter: MessageFilter
    /// In which direction.
    package var order: PageOrder
    /// The largest number of rows in a page.
    package var limit: Int
    /// About how many bytes a page may take before it ends early, as the tables hold them; nil for any number.
    ///
    /// With it a page ends at its first row past the limit, so that memory stays bounded whatever devices send.
    package var byteLimit: Int?
    /// The place after which the next page begins; nil for the first page.
    package var cursor: MessageCursor?

    package init(_ filter: MessageFilter, _ order: PageOrder, limit: Int, after cursor: MessageCursor? = nil) {
        self.filter = filter
        self.order = order
        self.limit = limit
        self.cursor = cursor
    }

    /// The next page's statement.
    ///
    /// A comparison of rows finds the place in the index but prunes no partition; the plain bound on `received_at` does.
    package var statement: (sql: String, values: SQLValues) {
        var values = SQLValues()
        var condition = filter.condition(&values)
        let direction = order == .newestFirst ? "DESC" : "ASC"
        if let cursor {
            let sign = order == .newestFirst ? "<" : ">"
            let time = values.bind(time: cursor.receivedAt)
            let key = values.bind(cursor.messageKey.digest)
            condition +=
                " AND m.received_at \(sign)= \(time) AND (m.received_at, m.message_key) \(sign) (\(time), \(key))"
        }
        let order = "m.received_at \(direction), m.message_key \(direction)"
        let limit = values.bind(Int64(limit))
        guard let byteLimit else {
            let sql = """
                SELECT \(MessagePage.columns()) FROM upstream.messages AS m
                WHERE \(condition) ORDER BY \(order) LIMIT \(limit)
                """
            return (sql, values)
        }
        // pg_column_size reads no value that is stored apart.
        let sql = """
            SELECT \(MessagePage.columns()), m.bytes_through FROM (
                SELECT m.*, sum(m.bytes) OVER (ORDER BY \(order) ROWS UNBOUNDED PRECEDING) AS bytes_through
                FROM (
                    SELECT *,
                        pg_column_size(message_id) + pg_column_size(registration_token)
                            + coalesce(pg_column_size(data), pg_column_size(data_raw), 0)
                            + coalesce(pg_column_size(extra), 0) AS bytes
                    FROM upstream.messages AS m WHERE \(condition) ORDER BY \(order) LIMIT \(limit)
                ) AS m
            ) AS m
            WHERE m.bytes_through - m.bytes < \(values.bind(Int64(byteLimit))) ORDER BY \(order)
            """
        return (sql, values)
    }

    /// Reads the next page and moves behind it.
    ///
    /// - Throws: ``PostgresError``
    /// - Returns: The page; one that is not full is the last.
    package mutating func next(_ connection: PostgresConnection) async throws(PostgresError) -> MessagePage {
        let (sql, values) = statement
        let result = try await connection.run { connection throws(PostgresError) in try connection.query(sql, values) }
        // A page that bytes have ended may be of any length.
        let isHeavy = byteLimit.map { limit in
            result.count > 0 && (result.integer(result.count - 1, MessagePage.Column.allCases.count) ?? 0) >= limit
        }
        let isFull = result.count >= limit || isHeavy ?? false
        let page = MessagePage(result: result, isFull: isFull)
        if let end = page.end { cursor = end }
        return page
    }
}
