package import Postgres
import Vocabulary

/// A result whose first columns are those of a message, read row by row.
///
/// Exports copy columns as the server sent them, without making a ``StoredMessage`` of each row.
package struct MessagePage: Sendable {
    /// Null where an outer join found no message.
    private let rows: [MessageRow?]
    package let isFull: Bool

    /// Wraps the rows of a query that selected ``columns`` first.
    package init(_ result: PostgresResult, isFull: Bool = false) throws(PostgresError) {
        self.isFull = isFull
        var rows: [MessageRow?] = []
        rows.reserveCapacity(result.count)
        for number in 0..<result.count { rows.append(try MessageRow(result, number)) }
        self.rows = rows
    }

    /// Wraps the rows of a statement with a byte limit: a page that ended there may have any number of rows.
    init(_ result: PostgresResult, limit: Int, byteLimit: Int) throws(PostgresError) {
        var isFull = result.count >= limit
        if !isFull, result.count > 0 {
            isFull = try result.read(result.count - 1) { row throws(PostgresError) in
                try row.value("bytes_through", as: Int.self) >= byteLimit
            }
        }
        try self.init(result, isFull: isFull)
    }

    /// The select list of every query for messages, for a row named `m`.
    package static let columns: SQL = "\(raw: MessageColumn.stored.map { "m.\($0.name)" }.joined(separator: ", "))"

    package var count: Int { rows.count }

    /// A row; nil where an outer join found no message.
    package subscript(row: Int) -> MessageRow? { rows[row] }

    /// The position of the last message; nil for a page without rows.
    package var end: MessageCursor? { rows.last.flatMap { $0?.cursor } }

    /// A row as a value.
    ///
    /// - Throws: ``PostgresError`` of class `schema`, also where an outer join found no message.
    package func message(_ row: Int) throws(PostgresError) -> StoredMessage {
        guard let row = rows[row] else { throw PostgresError(.schema, "an outer join found no message") }
        return try StoredMessage(row)
    }

    /// All rows as values.
    package var messages: [StoredMessage] {
        get throws(PostgresError) {
            var messages: [StoredMessage] = []
            for row in 0..<count { messages.append(try message(row)) }
            return messages
        }
    }
}
