import Postgres
import UpstreamKit
import Vocabulary

/// The statements of the commands `dead …`.
enum DeadLetterStatements: StatementCatalog {
    static let now: SQL = "SELECT clock_timestamp()"

    /// The dead letters of a filter, the latest first.
    static func list(_ filter: DeadLetterFilter, limit: Int) -> SQL {
        """
        SELECT
            handler, message_key, received_at, died_at, attempts, error_group, coalesce(last_error, ''),
            (SELECT category FROM upstream.message_of(dead_letters.message_key, dead_letters.received_at))
        FROM upstream.dead_letters WHERE \(condition(filter))
        ORDER BY died_at DESC, message_key LIMIT \(limit)
        """
    }

    /// Counted by handler and group, the largest first.
    static func groups(_ filter: DeadLetterFilter) -> SQL {
        """
        SELECT handler, error_group, count(*), min(died_at), max(died_at)
        FROM upstream.dead_letters WHERE \(condition(filter))
        GROUP BY handler, error_group ORDER BY count(*) DESC, handler, error_group
        """
    }

    /// How many a filter lets through.
    static func count(_ filter: DeadLetterFilter) -> SQL {
        "SELECT count(*) FROM upstream.dead_letters WHERE \(condition(filter))"
    }

    /// Makes deliveries of some of them again; gives how many.
    static func retry(_ filter: DeadLetterFilter, limit: Int) -> SQL {
        """
        WITH \(chosen(filter, limit)), gone AS (
            DELETE FROM upstream.dead_letters WHERE ctid IN (SELECT place FROM chosen) RETURNING *
        ), back AS (
            INSERT INTO upstream.deliveries (
                handler, message_key, received_at, next_attempt_at, last_error, replay_id, device_key
            )
            SELECT handler, message_key, received_at, now(), last_error, replay_id, device_key FROM gone
            ON CONFLICT DO NOTHING
        )
        SELECT count(*) AS count, (
            SELECT count(pg_notify('\(raw: DeliveryStatements.channel)', '')) FROM (SELECT FROM gone LIMIT 1) AS one
        ) AS notified FROM gone
        """
    }

    /// Deletes some of them; gives how many.
    static func discard(_ filter: DeadLetterFilter, limit: Int) -> SQL {
        """
        WITH \(chosen(filter, limit)), gone AS (
            DELETE FROM upstream.dead_letters WHERE ctid IN (SELECT place FROM chosen) RETURNING 1
        )
        SELECT count(*) FROM gone
        """
    }

    private static func chosen(_ filter: DeadLetterFilter, _ limit: Int) -> SQL {
        """
        chosen AS MATERIALIZED (
            SELECT ctid AS place FROM upstream.dead_letters WHERE \(condition(filter))
            LIMIT \(limit) FOR UPDATE SKIP LOCKED
        )
        """
    }

    /// `category` is looked up only where it is asked for, and last.
    private static func condition(_ filter: DeadLetterFilter) -> SQL {
        var conditions: [SQL] = []
        if let handler = filter.handler { conditions.append("handler = \(handler)") }
        if let group = filter.group { conditions.append("error_group = \(group)") }
        if let key = filter.messageKey { conditions.append("message_key = \(key.digest)") }
        if let since = filter.since { conditions.append("died_at >= \(since)") }
        if let until = filter.until { conditions.append("died_at < \(until)") }
        if let category = filter.category {
            conditions.append(
                """
                EXISTS (
                    SELECT FROM upstream.message_of(dead_letters.message_key, dead_letters.received_at) AS m
                    WHERE m.category = \(category)
                )
                """
            )
        }
        return conditions.isEmpty ? "true" : .joined(conditions, separator: " AND ")
    }

    static var samples: [StatementSample] {
        let all = DeadLetterFilter()
        var narrow = DeadLetterFilter()
        narrow.handler = "orders"
        narrow.group = "timeout"
        narrow.category = "com.example.orders"
        narrow.messageKey = MessageKey(Digest128(high: 1, low: 1))
        narrow.since = Timestamp(microseconds: 0)
        narrow.until = Timestamp(microseconds: 1)
        return [
            StatementSample("now", now),
            StatementSample("list", list(all, limit: 1)),
            StatementSample("list, narrowed", list(narrow, limit: 1)),
            StatementSample("groups", groups(narrow)),
            StatementSample("count", count(narrow)),
            StatementSample("retry", retry(narrow, limit: 1)),
            StatementSample("discard", discard(narrow, limit: 1)),
        ]
    }
}
