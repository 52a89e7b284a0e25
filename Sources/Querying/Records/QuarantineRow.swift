package import Postgres
package import Vocabulary

package struct QuarantineRow: Sendable {
    package var id: Int64
    /// The sender whose connection delivered it.
    package var senderID: String
    /// The message id, if it has one that text can hold.
    package var messageID: String?
    package var reason: String
    package var detail: String
    /// The stanza as received; empty if it was not requested.
    package var stanza: Bytea
    package var byteCount: Int64
    package var timesSeen: Int64
    package var receivedAt: Timestamp
    package var lastSeenAt: Timestamp
    /// Whether the stanza is shown as received, in base64, and not as text with its tokens masked.
    package var isVerbatim: Bool
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
    package var hasStanzas = false
    package var limit = 50

    package init() {}

    package func rows(_ connection: PostgresConnection) async throws(PostgresError) -> [QuarantineRow] {
        try await connection.result(of: RecordStatements.quarantine(self)).rows(QuarantineRow.init)
    }
}
