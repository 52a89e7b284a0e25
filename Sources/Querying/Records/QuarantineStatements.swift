import Postgres

enum QuarantineStatements {
    static func page(_ query: QuarantineQuery) -> SQL {
        let isBackwards = query.order == .newestFirst
        var parts: [SQL] = []
        if let id = query.id { parts.append("id = \(id)") }
        if let senderID = query.senderID { parts.append("sender_id = \(senderID)") }
        if let reason = query.reason { parts.append("reason = \(reason)") }
        if let messageID = query.messageID { parts.append("message_id = \(messageID)") }
        if let since = query.since { parts.append("received_at >= \(since)") }
        if let until = query.until { parts.append("received_at < \(until)") }
        if let cursor = query.cursor { parts.append(isBackwards ? "id < \(cursor)" : "id > \(cursor)") }
        let condition: SQL = parts.isEmpty ? "true" : .joined(parts, separator: " AND ")
        let stanza: SQL = query.hasStanzas ? "stanza" : "NULL::bytea"
        let order: SQL = isBackwards ? "id DESC" : "id ASC"
        return """
            SELECT
                id, sender_id, message_id, reason, detail, \(stanza), octet_length(stanza), times_seen, received_at,
                last_seen_at
            FROM upstream.quarantine WHERE \(condition) ORDER BY \(order) LIMIT \(query.limit)
            """
    }
}
