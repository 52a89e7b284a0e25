import Digests
import Postgres
package import UpstreamKit
import Vocabulary

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
