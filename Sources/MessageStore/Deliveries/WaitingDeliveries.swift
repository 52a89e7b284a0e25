package import Postgres
package import UpstreamKit
package import Vocabulary

/// An unfinished delivery, and why it waits.
package struct WaitingDelivery: Sendable {
    /// The reason for waiting, from a closed set.
    package enum Reason: String, SQLDecodable, Sendable, CaseIterable {
        /// A worker holds it.
        case leased
        /// The handler is paused.
        case paused
        /// The handler asked for a pause, or its circuit is open.
        case held
        /// The latest attempt failed, and the next is not due yet.
        case retry
        /// Released without a failed attempt and not due yet: a circuit breaker, a stopping worker.
        case postponed
        /// Due, but no live worker runs the handler.
        case unclaimed
        /// Due; a worker will take it in its turn.
        case due
    }

    package var handler: String
    package var messageKey: MessageKey
    package var receivedAt: Timestamp
    /// Failed attempts that count.
    package var attempts: Int
    /// When the next attempt is due; the lease's end for what a worker holds.
    package var dueAt: Timestamp
    /// The worker that holds it; nil for none.
    package var leaseOwner: String?
    /// When the lease ends unless it is renewed; nil without one.
    package var leaseUntil: Timestamp?
    /// The error of the latest attempt.
    package var error: String?
    /// The replay that queued it; nil for a first delivery.
    package var replayID: Digest128?
    /// Whether it is in a block: in the memory of the worker that stored its message.
    package var isInBlock: Bool
    package var reason: Reason
    /// When the handler's pause ends by itself; nil if it is not paused, or until resumed.
    package var pausedUntil: Timestamp?
    package var pausedReason: String?
    /// When the pause that the handler asked for ends, or an open circuit may be probed; nil without one.
    package var heldUntil: Timestamp?
    /// The handler's reason for that pause.
    package var heldReason: String?
    /// The message's category; nil if the message is gone.
    package var category: String?
    /// The latest failure's group; nil without one, or if the history of attempts does not reach back to it.
    package var errorGroup: String?

    /// Its position in the order of deliveries.
    package var cursor: WaitingCursor {
        WaitingCursor(dueAt: dueAt, receivedAt: receivedAt, messageKey: messageKey, handler: handler)
    }
}

/// A position in the order of waiting deliveries; as text two times, a key and the handler, with slashes between.
package struct WaitingCursor: Sendable, Equatable, CustomStringConvertible {
    package var dueAt: Timestamp
    package var receivedAt: Timestamp
    package var messageKey: MessageKey
    package var handler: String

    package var description: String { "\(dueAt.rfc3339)/\(receivedAt.rfc3339)/\(messageKey)/\(handler)" }
}

extension WaitingCursor {
    /// Parses the text form; nil if it is not one.
    package init?(_ text: String) {
        guard let parts = CursorParts(text, times: 2) else { return nil }
        (dueAt, receivedAt) = (parts.times[0], parts.times[1])
        (messageKey, handler) = (parts.messageKey, parts.handler)
    }
}

/// Selects waiting deliveries; nil members select all.
package struct WaitingFilter: Sendable, Equatable {
    package var handler: String?
    package var messageKey: MessageKey?
    package var category: String?
    /// The message was received at or after.
    package var since: Timestamp?
    /// The message was received before.
    package var until: Timestamp?
    /// The group of the latest failure, by the history of attempts.
    package var errorGroup: String?

    package init() {}
}

extension WaitingFilter: CustomStringConvertible {
    /// The conditions as text, each after a comma; empty without conditions.
    package var description: String {
        [
            handler.map { "handler \($0)" }, messageKey.map { "message \($0)" }, category.map { "category \($0)" },
            errorGroup.map { "group '\($0)'" }, since.map { "since \($0.rfc3339)" },
            until.map { "until \($0.rfc3339)" },
        ].afterCommas
    }
}

/// Acts on waiting deliveries: makes them due at once, or gives them up.
///
/// Those held by a worker, by a lease or in a block, are left alone.
package struct WaitingDeliveries: Sendable {
    /// The error group of dead letters made by ``Act/cancel``.
    package static let cancelledGroup = "cancelled by operator"

    package struct Counts: Sendable, Equatable {
        /// Held by no worker.
        package var free: Int
        /// Of these, not due yet.
        package var later: Int
        /// Held by a worker.
        package var held: Int
    }

    package enum Act: Sendable {
        /// Makes them due at once, ends what their handlers asked for (`Retry-After`), and closes circuit breakers.
        case retryNow
        /// Makes them dead letters.
        case cancel

        package var action: AuditAction { self == .retryNow ? .retryDeliveries : .cancelDeliveries }

        /// Acts on some of a filter's deliveries inside a transaction, without an audit entry; returns how many.
        func run(
            _ connection: isolated PostgresConnection,
            _ filter: WaitingFilter,
            limit: Int,
            by author: AuditAuthor
        ) throws(PostgresError) -> Int {
            switch self {
            case .retryNow:
                try connection.run(WaitingStatements.endHolds(filter))
                let count: Int = try connection.run(WaitingStatements.retryNow(filter, limit: limit)).value()
                if count > 0 { connection.notifyAfterCommit(DeliveryBell.channel) }
                return count
            case .cancel:
                let why = author.reason.map { ": \($0)" } ?? ""
                let error = "cancelled by \(author.name)\(why)"
                return try connection.run(WaitingStatements.cancel(filter, error: error, limit: limit)).value()
            }
        }
    }

    private let connection: PostgresConnection

    package init(_ connection: PostgresConnection) {
        self.connection = connection
    }

    /// A page of at most `limit` deliveries after a cursor, earliest due first.
    package func list(
        _ filter: WaitingFilter,
        after cursor: WaitingCursor? = nil,
        limit: Int
    ) async throws(PostgresError) -> [WaitingDelivery] {
        let rows = try await connection.result(of: WaitingStatements.page(filter, after: cursor, limit: limit))
            .rows(WaitingDelivery.init)
        guard rows.contains(where: { $0.reason == .due }) else { return rows }
        let (workers, now) = try await HandlerBreaker.workers(connection)
        let breakers = HandlerBreaker.of(workers, now: now)
        return rows.map { $0.held(by: breakers[$0.handler], now: now) }
    }

    /// Why none of a filter's deliveries could be made due, in words; the counts stop at 10,000.
    package static func whyUnmoved(
        _ connection: isolated PostgresConnection,
        _ filter: WaitingFilter
    ) throws(PostgresError) -> String {
        let (due, held, paused) = try connection.run(WaitingStatements.unmoved(filter)).onlyRow {
            (due: Int, held: Int, paused: Int) in (due, held, paused)
        }
        func some(_ count: Int) -> String { Amount.count(count) + (count >= WaitingStatements.countLimit ? "+" : "") }
        var parts: [String] = []
        if due > 0 { parts.append("\(some(due)) are due already and wait for their turn") }
        if held > 0 { parts.append("\(some(held)) are in a worker's hands") }
        if paused > 0 { parts.append("the handler is paused: resume it") }
        guard !parts.isEmpty else { return "Nothing waits." }
        return "Nothing moved: " + parts.joined(separator: "; ") + ". Open circuits and holds have ended."
    }

    /// Counts a filter's deliveries.
    package func count(_ filter: WaitingFilter) async throws(PostgresError) -> Counts {
        try await connection.run { connection throws(PostgresError) in try Self.count(connection, filter) }
    }

    package static func count(
        _ connection: isolated PostgresConnection,
        _ filter: WaitingFilter
    ) throws(PostgresError) -> Counts {
        try connection.run(WaitingStatements.count(filter)).onlyRow(Counts.init)
    }
}

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
                    SELECT d.* FROM \(raw: everywhere) AS d WHERE d.handler = h.name AND \(condition)
                    ORDER BY d.next_attempt_at, d.received_at, d.message_key LIMIT \(limit)
                ) AS d \(filter.handler.map { "WHERE h.name = \($0)" as SQL } ?? "")
                ORDER BY d.next_attempt_at, d.received_at, d.message_key, d.handler LIMIT \(limit)
            ) AS w JOIN upstream.handlers AS h ON h.name = w.handler
            ORDER BY w.next_attempt_at, w.received_at, w.message_key, w.handler
            """
    }

    private static let isLeased = "(w.lease_until > now() AND w.lease_owner IS NOT NULL)"
    private static let (isPaused, isHeld) = (HandlerStatements.isPaused, HandlerStatements.isHeld)

    /// Deliveries in rows and in blocks, in one form: a block's are untried and due when its lease ends.
    private static let everywhere = """
        (
            SELECT
                handler, message_key, received_at, attempts, next_attempt_at, lease_owner, lease_until, last_error, replay_id,
                false AS in_block
            FROM upstream.deliveries
            UNION ALL
            SELECT b.handler, entry.key, entry.at, 0, b.lease_until, b.lease_owner, b.lease_until, NULL, b.replay_id, true
            FROM upstream.delivery_blocks AS b CROSS JOIN LATERAL unnest(b.keys, b.times) AS entry (key, at)
        )
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

    /// Counts a filter's deliveries: held by no worker, those of them not due yet, and held by workers.
    static func count(_ filter: WaitingFilter) -> SQL {
        """
        SELECT
            count(*) FILTER (WHERE NOT in_block AND \(raw: isFree)),
            count(*) FILTER (WHERE NOT in_block AND \(raw: isFree) AND d.next_attempt_at > now()),
            count(*) FILTER (WHERE in_block OR NOT \(raw: isFree))
        FROM \(raw: everywhere) AS d WHERE \(condition(filter))
        """
    }

    fileprivate static let countLimit = 10_000

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

    /// Makes some free deliveries that wait for a retry due at once, soonest first; returns how many.
    ///
    /// One that a worker claims meanwhile is left alone.
    static func retryNow(_ filter: WaitingFilter, limit: Int) -> SQL {
        """
        WITH chosen AS MATERIALIZED (
            SELECT d.ctid AS place FROM upstream.deliveries AS d
            WHERE d.next_attempt_at > now() AND \(raw: isFree) AND \(condition(filter))
            ORDER BY d.next_attempt_at LIMIT \(limit) FOR UPDATE SKIP LOCKED
        ), moved AS (
            UPDATE upstream.deliveries SET next_attempt_at = now()
            WHERE ctid = ANY (ARRAY(SELECT place FROM chosen)) RETURNING 1
        )
        SELECT count(*) FROM moved
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
        """
        WITH chosen AS MATERIALIZED (
            SELECT d.ctid AS place FROM upstream.deliveries AS d
            WHERE \(raw: isFree) AND \(condition(filter))
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
}
