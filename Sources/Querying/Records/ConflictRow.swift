package import Postgres
package import UpstreamKit
package import Vocabulary

package struct ConflictRow: Sendable {
    /// The first copy with this content; its key is that of the message it conflicts with.
    package var copy: StoredMessage
    package var fingerprint: Digest128
    /// Its public name: the fingerprint, or a substitute where payloads are hidden.
    package var name: Digest128
    package var timesSeen: Int64
    package var lastSeenAt: Timestamp
    /// When it was released to the handlers; nil if never.
    package var releasedAt: Timestamp?
    package var releasedBy: String?
    /// The key under which handlers see it.
    package var releaseKey: MessageKey

    /// The page's bytes up to and including this row.
    let bytesThrough: Int64

    /// Its place in the order of conflicts.
    package var cursor: ConflictCursor { ConflictCursor(message: copy.cursor, fingerprint: fingerprint) }
    /// The same with ``name`` for the fingerprint.
    package var namedCursor: ConflictCursor { ConflictCursor(message: copy.cursor, fingerprint: name) }

    /// Decodes the rows of ``RecordStatements/conflicts(_:)``.
    static func rows(of result: PostgresResult) throws(PostgresError) -> [ConflictRow] {
        let page = try MessagePage(result)
        var number = -1
        return try result.map { row throws(PostgresError) in
            number += 1
            row.skip(MessageColumn.stored.count)
            let fingerprint = try row.next(Digest128.self)
            return ConflictRow(
                copy: try page.message(number),
                fingerprint: fingerprint,
                name: fingerprint,
                timesSeen: try row.next(),
                lastSeenAt: try row.next(),
                releasedAt: try row.next(),
                releasedBy: try row.next(),
                releaseKey: try row.next(),
                bytesThrough: try row.next()
            )
        }
    }
}

/// A position in the order of conflicts; as text that of ``MessageCursor``, a slash, and the fingerprint.
package struct ConflictCursor: Sendable, Equatable, LosslessStringConvertible {
    /// The time and key of the first copy.
    package var message: MessageCursor
    /// Distinguishes contents of the same message.
    package var fingerprint: Digest128

    init(message: MessageCursor, fingerprint: Digest128) {
        (self.message, self.fingerprint) = (message, fingerprint)
    }

    package init?(_ text: String) {
        guard let slash = text.lastIndex(of: "/"), let message = MessageCursor(String(text[..<slash])),
            let fingerprint = Digest128(uuid: text[text.index(after: slash)...].utf8)
        else { return nil }
        self.init(message: message, fingerprint: fingerprint)
    }

    package var description: String { "\(message)/\(fingerprint)" }
}

package struct ConflictQuery: Sendable {
    /// Which conflicts; times are those of the first copy.
    package var filter: MessageFilter
    package var fingerprint: Digest128?
    /// The position after which it begins, newest first.
    package var cursor: ConflictCursor?
    package var limit: Int
    /// Ends a page with the row that takes it past this many bytes, uncompressed.
    package var byteLimit = Int.max

    package init(filter: MessageFilter, fingerprint: Digest128? = nil, after cursor: ConflictCursor? = nil, limit: Int)
    {
        self.filter = filter
        self.fingerprint = fingerprint
        self.cursor = cursor
        self.limit = limit
    }

    /// Runs the query, newest first.
    package func rows(_ connection: PostgresConnection) async throws(PostgresError) -> [ConflictRow] {
        try await ConflictRow.rows(of: connection.result(of: RecordStatements.conflicts(self)))
    }

    /// Runs the query, newest first, and tells whether more rows may follow.
    package func page(
        _ connection: PostgresConnection
    ) async throws(PostgresError) -> (rows: [ConflictRow], isFull: Bool) {
        let rows = try await rows(connection)
        return (rows, rows.count >= limit || (rows.last?.bytesThrough ?? 0) >= byteLimit)
    }
}
