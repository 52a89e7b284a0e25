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
        let sql = """
            SELECT \(MessagePage.columns()) FROM upstream.messages AS m
            WHERE \(condition)
            ORDER BY m.received_at \(direction), m.message_key \(direction) LIMIT \(values.bind(Int64(limit)))
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
        let page = MessagePage(result: result, limit: limit)
        if let end = page.end { cursor = end }
        return page
    }
}
