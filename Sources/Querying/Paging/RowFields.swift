import Digests
import Postgres
import UpstreamKit
import Vocabulary

/// The values of one row, by column.
struct RowFields {
    let keys: MessagePage.Keys
    private let page: MessagePage
    private let row: Int

    /// The values of a row; nil if an outer join found no message.
    init?(_ page: MessagePage, _ row: Int) {
        guard let keys = page.keys(row) else { return nil }
        (self.keys, self.page, self.row) = (keys, page, row)
    }

    func isNull(_ column: MessageColumn) -> Bool { page.isNull(row, column) }

    func withBytes<T>(_ column: MessageColumn, _ body: (UnsafeRawBufferPointer) -> T) -> T {
        page.withBytes(row, column, body)
    }

    /// Reads a value of any type.
    func value<Value: SQLDecodable>(
        _ column: MessageColumn,
        as _: Value.Type = Value.self
    ) throws(PostgresError) -> Value {
        try page.value(row, column)
    }

    /// A digest; nil for null.
    func digest(_ column: MessageColumn) -> Digest128? {
        switch column {
        case .messageKey: keys.cursor.messageKey.digest
        case .deviceKey: keys.deviceKey.digest
        case .fingerprint: fingerprint
        default: try? page.value(row, column)
        }
    }

    /// A time; nil for null.
    func time(_ column: MessageColumn) -> Timestamp? {
        column == .receivedAt ? keys.cursor.receivedAt : try? page.value(row, column)
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
