package import Postgres
package import Vocabulary

/// A row of `upstream.quarantine`.
package struct QuarantineRow: Sendable {
    package var id: Int64
    /// The sender whose connection delivered it.
    package var senderID: String
    /// The message id, if it has one that text can hold.
    package var messageID: String?
    /// The reason, from a closed set.
    package var reason: String
    package var detail: String
    /// The stanza as received; empty if it was not requested.
    package var stanza: [UInt8]
    /// The length of the stanza in bytes.
    package var byteCount: Int64
    /// How many copies were received.
    package var timesSeen: Int64
    /// When the first was received.
    package var receivedAt: Timestamp
    /// When the latest was received.
    package var lastSeenAt: Timestamp
    /// Whether the stanza is shown as received, in base64, and not as text with its tokens masked.
    package var isVerbatim = false
}

/// A query for quarantined stanzas, in pages along the id.
package struct QuarantineQuery: Sendable {
    package var id: Int64?
    package var senderID: String?
    package var reason: String?
    /// Only with this message id; no index serves it.
    package var messageID: String?
    /// First received at or after.
    package var since: Timestamp?
    /// First received before.
    package var until: Timestamp?
    /// The row id after which it begins.
    package var cursor: Int64?
    package var order = PageOrder.newestFirst
    /// Whether to read the stanzas themselves.
    package var hasStanzas = false
    package var limit = 50

    package init() {}

    package func rows(_ connection: PostgresConnection) async throws(PostgresError) -> [QuarantineRow] {
        let sql = QuarantineStatements.page(self)
        return try await connection.result(of: sql).map { row throws(PostgresError) in
            QuarantineRow(
                id: try row.next(),
                senderID: try row.next(),
                messageID: try row.next(),
                reason: try row.next(),
                detail: try row.next(),
                stanza: try row.next(Bytea?.self)?.bytes ?? [],
                byteCount: try row.next(),
                timesSeen: try row.next(),
                receivedAt: try row.next(),
                lastSeenAt: try row.next()
            )
        }
    }
}
