package import Postgres
import Vocabulary

/// A row of `upstream.quarantine`.
package struct QuarantineRow: Sendable {
    /// Names the row.
    package var id: Int64
    /// The sender whose connection delivered it.
    package var senderID: String
    /// The id, where it has one that text can hold.
    package var messageID: String?
    /// Why, from a closed set.
    package var reason: String
    /// More about the reason.
    package var detail: String
    /// The stanza as it came; empty where it was not asked for.
    package var stanza: [UInt8]
    /// The length of the stanza.
    package var byteCount: Int64
    /// How many copies came.
    package var timesSeen: Int64
    /// When the first came.
    package var receivedAt: Int64
    /// When the latest came.
    package var lastSeenAt: Int64

    /// The row as a JSON object.
    ///
    /// - Parameters:
    ///   - verbatim: Whether the stanza is given as it came, in base64; else as text with its tokens masked.
    ///   - isForTerminal: Whether characters that a terminal may act on are escaped, too.
    /// - Returns: One line without its end.
    package func json(verbatim: Bool, isForTerminal: Bool) -> [UInt8] {
        var writer = JSONWriter(isForTerminal: isForTerminal)
        writer.beginObject()
        writer.member("id", id)
        writer.member("received_at", Timestamp(microseconds: receivedAt))
        writer.member("last_seen_at", Timestamp(microseconds: lastSeenAt))
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

/// A query for quarantined stanzas; pages go along the id.
package struct QuarantineQuery: Sendable {
    /// One row.
    package var id: Int64?
    /// Only of this sender.
    package var senderID: String?
    /// Only for this reason.
    package var reason: String?
    /// Only with this id; looked for row by row.
    package var messageID: String?
    /// First received at or after.
    package var since: Int64?
    /// First received before.
    package var until: Int64?
    /// The id after which it begins.
    package var cursor: Int64?
    /// In which direction.
    package var order = PageOrder.newestFirst
    /// Whether the stanzas themselves are read.
    package var hasStanzas = false
    /// The largest number of rows.
    package var limit = 50

    package init() {}

    /// Runs it.
    ///
    /// - Throws: ``PostgresError``
    package func rows(_ connection: PostgresConnection) async throws(PostgresError) -> [QuarantineRow] {
        let (sql, values) = statement
        return try await connection.run { connection throws(PostgresError) in
            let result = try connection.query(sql, values)
            return (0..<result.count).map { row in
                QuarantineRow(
                    id: result.integer(row, 0) ?? 0,
                    senderID: result.text(row, 1) ?? "",
                    messageID: result.text(row, 2),
                    reason: result.text(row, 3) ?? "",
                    detail: result.text(row, 4) ?? "",
                    stanza: result.bytes(row, 5) ?? [],
                    byteCount: result.integer(row, 6) ?? 0,
                    timesSeen: result.integer(row, 7) ?? 0,
                    receivedAt: result.timestamp(row, 8) ?? 0,
                    lastSeenAt: result.timestamp(row, 9) ?? 0
                )
            }
        }
    }

    private var statement: (sql: String, values: SQLValues) {
        var values = SQLValues()
        var parts: [String] = []
        if let id { parts.append("id = \(values.bind(id))") }
        if let senderID { parts.append("sender_id = \(values.bind(senderID))") }
        if let reason { parts.append("reason = \(values.bind(reason))") }
        if let messageID { parts.append("message_id = \(values.bind(messageID))") }
        if let since { parts.append("received_at >= \(values.bind(time: since))") }
        if let until { parts.append("received_at < \(values.bind(time: until))") }
        if let cursor { parts.append("id \(order == .newestFirst ? "<" : ">") \(values.bind(cursor))") }
        let sql = """
            SELECT
                id, sender_id, message_id, reason, detail, \(hasStanzas ? "stanza" : "NULL::bytea"),
                octet_length(stanza), times_seen, received_at, last_seen_at
            FROM upstream.quarantine
            WHERE \(parts.isEmpty ? "true" : parts.joined(separator: " AND "))
            ORDER BY id \(order == .newestFirst ? "DESC" : "ASC") LIMIT \(values.bind(Int64(limit)))
            """
        return (sql, values)
    }
}
