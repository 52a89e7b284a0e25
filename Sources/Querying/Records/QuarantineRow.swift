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

    /// The row as a JSON object on one line.
    ///
    /// `verbatim` writes the stanza as received, in base64, instead of as text with masked tokens. `isForTerminal`
    /// escapes control characters as well.
    package func json(verbatim: Bool, isForTerminal: Bool) -> [UInt8] {
        var writer = JSONWriter(isForTerminal: isForTerminal)
        writer.beginObject()
        writer.member("id", id)
        writer.member("received_at", receivedAt)
        writer.member("last_seen_at", lastSeenAt)
        writer.member("times_seen", timesSeen)
        writer.member("bytes", byteCount)
        writer.member("sender_id", senderID)
        if let messageID { writer.member("message_id", messageID) }
        writer.member("reason", reason)
        writer.member("detail", detail)
        if !stanza.isEmpty {
            if verbatim {
                writer.member("stanza_base64", Base64.text(stanza))
            } else {
                writer.member("stanza_masked", TerminalText.escape(bytes: StanzaMask.mask(stanza)))
            }
        }
        writer.endObject()
        return writer.finish()
    }
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
