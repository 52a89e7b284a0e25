package import Postgres
package import UpstreamKit
import Vocabulary

/// A result whose first columns are those of a message, read row by row.
///
/// Exports copy columns as the server sent them, without making a ``StoredMessage`` of each row.
package struct MessagePage: Sendable {
    let result: PostgresResult
    /// Whether another page may follow.
    package let isFull: Bool
    private let keys: [Keys?]

    /// The columns read for every row.
    struct Keys: Sendable {
        var cursor: MessageCursor
        var deviceKey: DeviceKey
    }

    /// Wraps the rows of a query that selected ``columns(alias:)`` first.
    ///
    /// - Throws: ``PostgresError`` of class `schema`.
    package init(_ result: PostgresResult, isFull: Bool = false) throws(PostgresError) {
        self.result = result
        self.isFull = isFull
        keys = try result.map { row throws(PostgresError) in
            // Null where an outer join found no message.
            guard let key = try row.value(.messageKey, as: Digest128?.self) else { return nil }
            let cursor = MessageCursor(receivedAt: try row.value(.receivedAt), messageKey: MessageKey(key))
            return Keys(cursor: cursor, deviceKey: DeviceKey(try row.value(.deviceKey, as: Digest128.self)))
        }
    }

    /// The select list of every query for messages, for the row named `alias`.
    package static func columns(alias: String = "m") -> SQL {
        "\(raw: MessageColumn.stored.map { "\(alias).\($0.name)" }.joined(separator: ", "))"
    }

    package var count: Int { result.count }

    /// The position of the last message; nil for a page without rows.
    package var end: MessageCursor? { keys.last.flatMap { $0?.cursor } }

    /// The device of a row's message; nil if an outer join found none.
    package func deviceKey(_ row: Int) -> DeviceKey? { keys[row]?.deviceKey }

    /// The position of a row's message; nil if an outer join found none.
    package func cursor(_ row: Int) -> MessageCursor? { keys[row]?.cursor }

    /// A row as a value.
    ///
    /// - Throws: ``PostgresError`` of class `schema`, also where an outer join found no message.
    package func message(_ row: Int) throws(PostgresError) -> StoredMessage {
        guard let values = RowFields(self, row) else {
            throw PostgresError(.schema, "an outer join found no message")
        }
        return try StoredMessage(values)
    }

    /// All rows as values.
    ///
    /// - Throws: ``PostgresError`` of class `schema`.
    package var messages: [StoredMessage] {
        get throws(PostgresError) {
            var messages: [StoredMessage] = []
            for row in 0..<count { messages.append(try message(row)) }
            return messages
        }
    }

    // MARK: Columns as the server sent them

    /// The keys of a row's message; nil if an outer join found none.
    func keys(_ row: Int) -> Keys? { keys[row] }

    package func isNull(_ row: Int, _ column: MessageColumn) -> Bool { result.isNull(row, column.rawValue) }

    /// Lends the bytes of a value; empty for null.
    package func withBytes<T>(_ row: Int, _ column: MessageColumn, _ body: (UnsafeRawBufferPointer) -> T) -> T {
        result.withBytes(row, column.rawValue, body)
    }

    /// Reads a value.
    func value<Value: SQLDecodable>(_ row: Int, _ column: MessageColumn) throws(PostgresError) -> Value {
        try result.read(row) { row throws(PostgresError) in try row.value(column) }
    }
}

extension PostgresRow {
    fileprivate func value<Value: SQLDecodable>(
        _ column: MessageColumn,
        as _: Value.Type = Value.self
    ) throws(PostgresError) -> Value {
        try value(at: column.rawValue)
    }
}
