import Postgres

enum HandlerStatements {
    /// A condition on `handlers`: a worker has recorded within two minutes that it runs it.
    static let isClaimed = "(seen_at > now() - interval '2 minutes')"

    /// A condition on `handlers`: a pause is in force.
    static let isPaused = "(paused AND (paused_until IS NULL OR paused_until > now()))"

    /// A condition on `handlers`: a pause that it asked for is in force.
    static let isHeld = "(held_until > now()) IS TRUE"

    /// The number of deliveries of the handler `name`, the age of the oldest among the 1,000 due first, and the number of
    /// its dead letters; counts stop at a limit.
    ///
    /// The conditions follow the index's order: a planner that knows of one handler with a million rows would otherwise
    /// scan the whole table for another's.
    static func counts(upTo limit: Int) -> (waiting: String, age: String, dead: String) {
        func first(_ limit: Int, _ column: String = "", of table: String, by time: String) -> String {
            """
            SELECT \(column) FROM upstream.\(table)
            WHERE (handler, \(time)) >= (name, '-infinity') AND (handler, \(time)) <= (name, 'infinity')
            ORDER BY handler, \(time) LIMIT \(limit)
            """
        }
        let soonest = first(1_000, "received_at", of: "deliveries", by: "next_attempt_at")
        return (
            "(SELECT count(*) FROM (\(first(limit, of: "deliveries", by: "next_attempt_at"))) AS counted)",
            "(SELECT now() - min(received_at) FROM (\(soonest)) AS soonest)",
            "(SELECT count(*) FROM (\(first(limit, of: "dead_letters", by: "died_at"))) AS counted)"
        )
    }

    /// All handlers by name; counts stop at a limit.
    static func list(counted limit: Int) -> SQL {
        let counts = counts(upTo: limit)
        return """
            SELECT
                name,
                ARRAY(SELECT category FROM upstream.subscriptions WHERE handler = name ORDER BY category),
                seen_at, \(raw: isClaimed),
                \(raw: isPaused), CASE WHEN \(raw: isPaused) THEN paused_until END, CASE WHEN \(raw: isPaused) THEN paused_reason END,
                CASE WHEN \(raw: isHeld) THEN held_until END, CASE WHEN \(raw: isHeld) THEN held_reason END,
                \(raw: counts.waiting) + (
                    SELECT coalesce(sum(cardinality(keys)), 0) FROM upstream.delivery_blocks WHERE handler = name
                )::int8,
                \(raw: counts.age), \(raw: counts.dead)
            FROM upstream.handlers ORDER BY name
            """
    }

    /// The workers registered for each handler, latest heartbeat first.
    static let workers: SQL = """
        SELECT handler, worker, categories, by_device, heartbeat_at, heartbeat_at > now() - interval '2 minutes'
        FROM upstream.handler_workers ORDER BY heartbeat_at DESC, token
        """

    /// Pauses a handler, without a length until it is resumed.
    static func pause(_ name: String, for length: Duration?, reason: String?) -> SQL {
        """
        UPDATE upstream.handlers
        SET paused = true, paused_until = now() + \(length), paused_reason = \(reason), paused_at = now()
        WHERE name = \(name)
        RETURNING paused_until
        """
    }

    /// Ends a handler's pause, also one that it asked for; its workers close their circuit breakers.
    static func resume(_ name: String) -> SQL {
        """
        UPDATE upstream.handlers SET paused = false, paused_until = NULL, paused_reason = NULL, paused_at = NULL, \(endHold)
        WHERE name = \(name)
        """
    }

    /// Ends the pause that a handler asked for, and closes its circuit breakers.
    static let endHold: SQL = "held_until = NULL, held_reason = NULL, resumed_at = clock_timestamp()"

    // MARK: Removal

    /// Batches of the receive path queue behind whoever waits for the next lock.
    static let limitLockWait: SQL = "SET LOCAL lock_timeout = '2s'"

    /// Locks a handler's row; returns whether a worker runs it.
    static func lock(_ name: String) -> SQL {
        "SELECT \(raw: isClaimed) FROM upstream.handlers WHERE name = \(name) FOR UPDATE"
    }

    /// Waits for batches that have read the subscriptions: their deliveries are visible afterwards.
    static let lockSubscriptions: SQL = "LOCK TABLE upstream.subscriptions IN ACCESS EXCLUSIVE MODE"

    /// Deletes some of a handler's rows of a table.
    static func sweep(_ table: String, _ name: String, limit: Int) -> SQL {
        """
        DELETE FROM upstream.\(raw: table) WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM upstream.\(raw: table) WHERE handler = \(name) LIMIT \(limit) FOR UPDATE SKIP LOCKED
        ))
        """
    }

    /// Deletes all of a handler's rows of a table.
    static func empty(_ table: String, _ name: String) -> SQL {
        "DELETE FROM upstream.\(raw: table) WHERE handler = \(name)"
    }

    /// Deletes the handler.
    static func remove(_ name: String) -> SQL { "DELETE FROM upstream.handlers WHERE name = \(name)" }
}
