import Postgres
import UpstreamKit
import Vocabulary

/// The statements that read what waits for handlers.
enum WaitingStatements: StatementCatalog {
    /// A page of deliveries, those that are due first coming first.
    ///
    /// Each handler's own are read along the index of claims, from the cursor on, so a page costs the number of handlers
    /// times its length, however many wait. Blocks hold what is in a worker's hands: few, and unpacked as rows before
    /// anything but success happens to them.
    static func page(_ query: WaitingQuery) -> SQL {
        var (rows, blocks): (SQL, SQL) = ("true", "true")
        if let cursor = query.cursor {
            let key = cursor.messageKey.digest
            let place: SQL = "(\(cursor.dueAt), \(cursor.receivedAt), \(key))"
            rows = """
                (d.next_attempt_at, d.received_at, d.message_key) >= \(place)
                AND (d.next_attempt_at, d.received_at, d.message_key, d.handler)
                    > (\(cursor.dueAt), \(cursor.receivedAt), \(key), \(cursor.handler))
                """
            blocks = """
                (b.lease_until, entry.at, entry.key, b.handler)
                    > (\(cursor.dueAt), \(cursor.receivedAt), \(key), \(cursor.handler))
                """
        }
        let limit = query.limit
        let chosen: SQL = query.handler.map { "WHERE name = \($0)" } ?? ""
        let chosenBlocks: SQL = query.handler.map { "AND b.handler = \($0)" } ?? ""
        return """
            SELECT
                w.handler, w.message_key, w.received_at, w.attempts, w.next_attempt_at, w.lease_owner, w.lease_until,
                w.lease_until > now(), w.next_attempt_at > now(), w.last_error, w.replay_id, w.is_block,
                h.paused AND (h.paused_until IS NULL OR h.paused_until > now()), h.paused_until, h.paused_reason,
                \(raw: HandlerStatements.isClaimed),
                (SELECT category FROM upstream.message_of(w.message_key, w.received_at))
            FROM (
                SELECT * FROM (
                    SELECT d.* FROM upstream.handlers CROSS JOIN LATERAL (
                        SELECT
                            d.handler, d.message_key, d.received_at, d.attempts, d.next_attempt_at, d.lease_owner,
                            d.lease_until, d.last_error, d.replay_id, false AS is_block
                        FROM upstream.deliveries AS d WHERE d.handler = handlers.name AND \(rows)
                        ORDER BY d.next_attempt_at, d.received_at, d.message_key LIMIT \(limit)
                    ) AS d \(chosen)
                    UNION ALL
                    (
                        SELECT
                            b.handler, entry.key, entry.at, 0, b.lease_until, b.lease_owner, b.lease_until, NULL,
                            b.replay_id, true
                        FROM upstream.delivery_blocks AS b CROSS JOIN LATERAL unnest(b.keys, b.times) AS entry (key, at)
                        WHERE \(blocks) \(chosenBlocks)
                        ORDER BY b.lease_until, entry.at, entry.key, b.handler LIMIT \(limit)
                    )
                ) AS w
                ORDER BY next_attempt_at, received_at, message_key, handler LIMIT \(limit)
            ) AS w LEFT JOIN upstream.handlers AS h ON h.name = w.handler
            ORDER BY w.next_attempt_at, w.received_at, w.message_key, w.handler
            """
    }

    static var samples: [StatementSample] {
        var query = WaitingQuery()
        query.limit = 1
        var further = query
        further.handler = "orders"
        further.cursor = WaitingCursor(
            dueAt: Timestamp(microseconds: 0),
            receivedAt: Timestamp(microseconds: 0),
            messageKey: MessageKey(Digest128(high: 0, low: 0)),
            handler: "orders"
        )
        return [StatementSample("page", page(query)), StatementSample("page, after a cursor", page(further))]
    }
}
