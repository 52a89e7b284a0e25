import Postgres
import UpstreamKit
import Vocabulary

/// The statements about waiting deliveries.
enum WaitingStatements {
    /// A page of deliveries, earliest due first.
    ///
    /// Each handler's are read along the index of claims from the cursor on, so a page costs the number of handlers
    /// times its length, however many wait. Blocks hold what workers hold: few, and unpacked as rows before anything
    /// but success happens to them.
    static func page(_ filter: WaitingFilter, after cursor: WaitingCursor? = nil, limit: Int) -> SQL {
        var condition = condition(filter)
        if let cursor {
            let place: SQL = "\(cursor.dueAt), \(cursor.receivedAt), \(cursor.messageKey.digest)"
            condition = """
                (d.next_attempt_at, d.received_at, d.message_key) >= (\(place))
                AND (d.next_attempt_at, d.received_at, d.message_key, d.handler) > (\(place), \(cursor.handler)) AND \(condition)
                """
        }
        return """
            SELECT
                w.handler, w.message_key, w.received_at, w.attempts, w.next_attempt_at,
                CASE WHEN \(raw: isLeased) THEN w.lease_owner END, CASE WHEN \(raw: isLeased) THEN w.lease_until END,
                w.last_error, w.replay_id, w.in_block,
                CASE
                    WHEN \(raw: isLeased) THEN 'leased'
                    WHEN \(raw: isPaused) THEN 'paused'
                    WHEN \(raw: isHeld) AND h.held_until >= w.next_attempt_at THEN 'held'
                    -- Else it waits for its own next attempt, which is later.
                    WHEN w.next_attempt_at > now() THEN CASE WHEN w.attempts > 0 THEN 'retry' ELSE 'postponed' END
                    WHEN \(raw: HandlerStatements.isClaimed) THEN 'due' ELSE 'unclaimed'
                END,
                CASE WHEN \(raw: isPaused) THEN h.paused_until END, CASE WHEN \(raw: isPaused) THEN h.paused_reason END,
                CASE WHEN \(raw: isHeld) THEN h.held_until END, CASE WHEN \(raw: isHeld) THEN h.held_reason END,
                (SELECT category FROM upstream.message_of(w.message_key, w.received_at)),
                CASE WHEN w.last_error IS NOT NULL THEN \(raw: group(of: "w")) END
            FROM (
                SELECT d.* FROM upstream.handlers AS h CROSS JOIN LATERAL (
                    \(SQL.joined(places.map { first($0, condition, limit) }, separator: " UNION ALL "))
                ) AS d \(filter.handler.map { "WHERE h.name = \($0)" as SQL } ?? "")
                ORDER BY d.next_attempt_at, d.received_at, d.message_key, d.handler LIMIT \(limit)
            ) AS w JOIN upstream.handlers AS h ON h.name = w.handler
            ORDER BY w.next_attempt_at, w.received_at, w.message_key, w.handler
            """
    }

    private static let isLeased = "(w.lease_until > now() AND w.lease_owner IS NOT NULL)"
    private static let (isPaused, isHeld) = (HandlerStatements.isPaused, HandlerStatements.isHeld)

    /// The first of a handler's deliveries in one place.
    private static func first(_ place: String, _ condition: SQL, _ limit: Int) -> SQL {
        """
        (
            SELECT d.* FROM (\(raw: place)) AS d WHERE d.handler = h.name AND \(condition)
            ORDER BY d.next_attempt_at, d.received_at, d.message_key LIMIT \(limit)
        )
        """
    }

    /// Deliveries in rows and in blocks, in one form: a block's are untried and due when its lease ends.
    private static let everywhere = "(\(rows) UNION ALL \(blocks))"

    /// The same in parts, which are read each in the order of its index.
    private static let places = [
        "\(rows) WHERE \(DeliveryStatements.isLive)", "\(rows) WHERE \(DeliveryStatements.isReplayed)", blocks,
    ]

    private static let rows = """
        SELECT
            handler, message_key, received_at, attempts, next_attempt_at, lease_owner, lease_until, last_error, replay_id,
            false AS in_block
        FROM upstream.deliveries
        """
    private static let blocks = """
        SELECT
            b.handler, entry.key AS message_key, entry.at AS received_at, 0 AS attempts, b.lease_until AS next_attempt_at,
            b.lease_owner, b.lease_until, NULL AS last_error, b.replay_id, true AS in_block
        FROM upstream.delivery_blocks AS b CROSS JOIN LATERAL unnest(b.keys, b.times) AS entry (key, at)
        """

    // MARK: Conditions

    /// The error group of the latest failed attempt, from the history; null if that does not reach back to it.
    private static func group(of row: String) -> String {
        """
        (SELECT a.error_group FROM upstream.attempts_of(\(row).message_key, \(row).received_at) AS a
            WHERE a.handler = \(row).handler AND a.error_group IS NOT NULL ORDER BY a.settled_at DESC LIMIT 1)
        """
    }

    /// A filter's condition; `true` if nothing narrows.
    ///
    /// Conditions that need a lookup come last.
    private static func condition(_ filter: WaitingFilter) -> SQL {
        .all([
            filter.handler.map { "d.handler = \($0)" },
            filter.messageKey.map { "d.message_key = \($0)" },
            filter.since.map { "d.received_at >= \($0)" },
            filter.until.map { "d.received_at < \($0)" },
            filter.category.map {
                """
                EXISTS (
                    SELECT FROM upstream.message_of(d.message_key, d.received_at) AS m WHERE m.category = \($0)
                )
                """
            },
            filter.errorGroup.map { "d.last_error IS NOT NULL AND \(raw: group(of: "d")) = \($0)" },
        ])
    }

    /// Rows that no worker holds.
    private static let isFree = "(d.lease_until IS NULL OR d.lease_until <= now())"

    // MARK: Acting

    /// Rows that no worker held at a time.
    private static func wasFree(at time: Timestamp) -> SQL { "(d.lease_until IS NULL OR d.lease_until <= \(time))" }

    /// Counts a filter's deliveries: held by no worker at a time, those of them not due yet, and held by workers.
    static func count(_ filter: WaitingFilter, at time: Timestamp) -> SQL {
        """
        SELECT
            count(*) FILTER (WHERE NOT in_block AND \(wasFree(at: time))),
            count(*) FILTER (WHERE NOT in_block AND \(wasFree(at: time)) AND d.next_attempt_at > \(time)),
            count(*) FILTER (WHERE in_block OR NOT \(wasFree(at: time))), pg_current_snapshot()::text
        FROM \(raw: everywhere) AS d WHERE \(condition(filter))
        """
    }

    static let countLimit = 10_000

    /// Counts a filter's deliveries up to a limit: held by no worker, and by one; and its handlers that are paused.
    static func unmoved(_ filter: WaitingFilter) -> SQL {
        """
        SELECT count(*) FILTER (WHERE is_free), count(*) FILTER (WHERE NOT is_free),
            (SELECT count(*) FROM upstream.handlers AS h WHERE \(raw: isPaused) AND \(filter.handler.map { "h.name = \($0)" as SQL } ?? "true"))
        FROM (
            SELECT NOT d.in_block AND \(raw: isFree) AS is_free FROM \(raw: everywhere) AS d
            WHERE \(condition(filter)) LIMIT \(countLimit)
        ) AS counted
        """
    }

    /// Makes some free deliveries that wait for a retry due at once, live ones first, of each kind the soonest; returns how
    /// many.
    ///
    /// One that a worker claims meanwhile is left alone.
    static func retryNow(_ filter: WaitingFilter, limit: Int) -> SQL {
        """
        WITH live AS MATERIALIZED (
            \(waiting(DeliveryStatements.isLive, filter)) LIMIT \(limit) FOR UPDATE SKIP LOCKED
        ), replayed AS MATERIALIZED (
            \(waiting(DeliveryStatements.isReplayed, filter)) LIMIT \(limit) - (SELECT count(*) FROM live)
            FOR UPDATE SKIP LOCKED
        ), moved AS (
            UPDATE upstream.deliveries SET next_attempt_at = now()
            WHERE ctid = ANY (ARRAY(SELECT place FROM live UNION ALL SELECT place FROM replayed)) RETURNING 1
        )
        SELECT count(*) FROM moved
        """
    }

    /// Free deliveries of a kind that wait for a retry, in the order of the index of claims.
    private static func waiting(_ kind: String, _ filter: WaitingFilter) -> SQL {
        """
        SELECT d.ctid AS place FROM upstream.deliveries AS d
        WHERE \(raw: kind) AND d.next_attempt_at > now() AND \(raw: isFree) AND \(condition(filter))
        ORDER BY d.next_attempt_at
        """
    }

    /// Lets the handlers of a filter's deliveries be tried at once, whatever they asked for and however often they
    /// failed.
    static func endHolds(_ filter: WaitingFilter) -> SQL {
        var others = filter
        others.handler = nil
        let handler: SQL = filter.handler.map { "name = \($0)" } ?? "true"
        let some: SQL =
            others == WaitingFilter()
            ? "true"
            : """
            EXISTS (
                SELECT FROM upstream.deliveries AS d
                WHERE d.handler = handlers.name AND \(raw: isFree) AND \(condition(others))
            )
            """
        return "UPDATE upstream.handlers SET \(HandlerStatements.endHold) WHERE \(handler) AND \(some)"
    }

    /// Makes some free deliveries dead letters, in their own group; returns how many.
    static func cancel(_ filter: WaitingFilter, error: String, limit: Int) -> SQL {
        let condition = SQL.all([
            filter.count.map { wasFree(at: $0.at) }, filter.count?.snapshot.map(isUnchanged), condition(filter),
        ])
        return """
            WITH chosen AS MATERIALIZED (
                SELECT d.ctid AS place FROM upstream.deliveries AS d
                WHERE \(raw: isFree) AND \(condition)
                LIMIT \(limit) FOR UPDATE SKIP LOCKED
            ), ended AS (
                DELETE FROM upstream.deliveries WHERE ctid = ANY (ARRAY(SELECT place FROM chosen))
                RETURNING *, 0 AS counted, left(\(error) || coalesce('; the latest attempt: ' || last_error, ''), 2048) AS failure,
                    \(WaitingDeliveries.cancelledGroup) AS failure_group
            ), dead AS (
                \(raw: DeadLetterStatements.bury)
            )
            SELECT count(*) FROM ended
            """
    }

    /// Whether a row is as a snapshot saw it: neither queued nor given back since. (A lease that has ended changes none.)
    ///
    /// `xmin` is the end of a transaction's number; the present one completes it, as no delivery waits for 2^32 of them.
    private static func isUnchanged(since snapshot: String) -> SQL {
        let latest: SQL = "(SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint)"
        return """
            pg_visible_in_snapshot(
                (\(latest) - mod(\(latest) - d.xmin::text::bigint, 4294967296))::text::xid8, \(snapshot)::pg_snapshot
            )
            """
    }
}
