import Digests
package import Postgres
package import UpstreamKit
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

/// A row of a page: its values by column, as the server sent them.
package struct MessageRow: Sendable {
    package let cursor: MessageCursor
    package let deviceKey: DeviceKey
    private let result: PostgresResult
    private let number: Int

    /// Reads a row's keys; nil where an outer join found no message.
    init?(_ result: PostgresResult, _ number: Int) throws(PostgresError) {
        guard !result.isNull(number, MessageColumn.messageKey.rawValue) else { return nil }
        (self.result, self.number) = (result, number)
        (cursor, deviceKey) = try result.read(number) { row throws(PostgresError) in
            func value<Value: SQLDecodable>(_ column: MessageColumn) throws(PostgresError) -> Value {
                try row.value(at: column.rawValue)
            }
            let cursor = MessageCursor(receivedAt: try value(.receivedAt), messageKey: try value(.messageKey))
            return (cursor, try value(.deviceKey))
        }
    }

    func isNull(_ column: MessageColumn) -> Bool { result.isNull(number, column.rawValue) }

    /// Lends the bytes of a value; empty for null.
    package func withBytes<T>(_ column: MessageColumn, _ body: (UnsafeRawBufferPointer) -> T) -> T {
        result.withBytes(number, column.rawValue, body)
    }

    func value<Value: SQLDecodable>(_ column: MessageColumn) throws(PostgresError) -> Value {
        try result.read(number) { row throws(PostgresError) in try row.value(at: column.rawValue) }
    }

    func digest(_ column: MessageColumn) -> Digest128? {
        switch column {
        case .messageKey: cursor.messageKey.digest
        case .deviceKey: deviceKey.digest
        case .fingerprint: fingerprint
        default: try? value(column)
        }
    }

    func time(_ column: MessageColumn) -> Timestamp? {
        column == .receivedAt ? cursor.receivedAt : try? value(column)
    }

    /// Lends a value's bytes, masked by ``TokenMask`` on request.
    func withText<T>(_ column: MessageColumn, isMasked: Bool, _ body: (UnsafeRawBufferPointer) -> T) -> T {
        withBytes(column) { text in
            guard isMasked else { return body(text) }
            var masked: [UInt8]?
            withBytes(.registrationToken) { masked = TokenMask.mask(text, of: $0) }
            guard let masked else { return body(text) }
            return masked.withUnsafeBytes(body)
        }
    }

    /// As docs/protocol.md says (What identifies a message): the first 16 bytes of SHA-256 over the parts, each after its
    /// length in 8 bytes; an absent one is the length 2^64-1 alone.
    private var fingerprint: Digest128 {
        var hash = SHA256()
        for column in [MessageColumn.registrationToken, .category, .messageType] { add(column, to: &hash) }
        add(isNull(.dataRaw) ? .data : .dataRaw, to: &hash)
        return hash.finish128()
    }

    private func add(_ column: MessageColumn, to hash: inout SHA256) {
        if isNull(column) { return hash.update(bigEndian: .max) }
        withBytes(column) { part in
            hash.update(bigEndian: UInt64(part.count))
            hash.update(part)
        }
    }
}
