import Postgres
import UpstreamKit

enum ConflictStatements {
    /// A page of conflicts, the newest first.
    static func page(_ query: ConflictQuery) -> SQL {
        var condition = query.filter.condition(on: .conflicts)
        if let fingerprint = query.fingerprint { condition = "\(condition) AND m.fingerprint = \(fingerprint)" }
        if let cursor = query.cursor {
            let (message, fingerprint) = (cursor.message, cursor.fingerprint)
            condition = """
                \(condition) AND (m.received_at, m.message_key, m.fingerprint)
                    < (\(message.receivedAt), \(message.messageKey.digest), \(fingerprint))
                """
        }
        let columns: SQL = """
            \(MessagePage.columns()), m.fingerprint, m.times_seen, m.last_seen_at, m.released_at, m.released_by,
            upstream.release_key(m.message_key, m.fingerprint)
            """
        let order: SQL = "m.received_at DESC, m.message_key DESC, m.fingerprint DESC"
        guard let byteLimit = query.byteLimit else {
            return """
                SELECT \(columns), 0::bigint AS bytes_through FROM upstream.conflicts AS m WHERE \(condition)
                ORDER BY \(order) LIMIT \(query.limit)
                """
        }
        return """
            SELECT \(columns), m.bytes_through::bigint FROM (
                SELECT m.*, sum(m.bytes) OVER (ORDER BY \(order) ROWS UNBOUNDED PRECEDING) AS bytes_through FROM (
                    SELECT *, \(MessageStatements.verbatimBytes) AS bytes FROM upstream.conflicts AS m
                    WHERE \(condition) ORDER BY \(order) LIMIT \(query.limit)
                ) AS m
            ) AS m
            WHERE m.bytes_through - m.bytes < \(byteLimit) ORDER BY \(order)
            """
    }
}
