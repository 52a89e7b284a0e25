import MessageStore
import Postgres
import UpstreamKit
import Vocabulary

/// The statements that act on waiting deliveries.
enum DeliveryActionStatements: StatementCatalog {
    /// Which waiting deliveries; what is nil does not narrow.
    struct Filter: Sendable {
        var handler: String?
        var messageKey: MessageKey?
        var category: String?
    }

    /// Makes some deliveries due at once that wait for a retry and that no worker holds, the soonest first; gives how many.
    ///
    /// A worker that claims one meanwhile has it, and it is left alone.
    static func retryNow(_ filter: Filter, limit: Int) -> SQL {
        var conditions: [SQL] = ["next_attempt_at > now()", "(lease_until IS NULL OR lease_until <= now())"]
        if let handler = filter.handler { conditions.append("handler = \(handler)") }
        if let key = filter.messageKey { conditions.append("message_key = \(key.digest)") }
        if let category = filter.category {
            conditions.append(
                """
                EXISTS (
                    SELECT FROM upstream.message_of(deliveries.message_key, deliveries.received_at) AS m
                    WHERE m.category = \(category)
                )
                """
            )
        }
        return """
            WITH chosen AS MATERIALIZED (
                SELECT ctid AS place FROM upstream.deliveries WHERE \(.joined(conditions, separator: " AND "))
                ORDER BY next_attempt_at LIMIT \(limit) FOR UPDATE SKIP LOCKED
            ), moved AS (
                UPDATE upstream.deliveries SET next_attempt_at = now()
                WHERE ctid = ANY (ARRAY(SELECT place FROM chosen)) RETURNING 1
            )
            SELECT count(*), (
                SELECT count(pg_notify('upstream_deliveries', '')) FROM (SELECT FROM moved LIMIT 1) AS one
            ) FROM moved
            """
    }

    static var samples: [StatementSample] {
        let key = MessageKey(Digest128(high: 1, low: 1))
        return [
            StatementSample("retryNow", retryNow(Filter(handler: "x", messageKey: key, category: "x"), limit: 1)),
            StatementSample("retryNow, all", retryNow(Filter(), limit: 1)),
        ]
    }
}
