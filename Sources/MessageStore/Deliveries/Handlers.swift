package import Postgres
package import Vocabulary

/// A registered handler as `handlers list` shows it.
package struct HandlerState: Sendable {
    package var name: String
    /// The categories that it is subscribed to.
    package var categories: [String]
    /// Its conditions on `data`; where its workers have different ones, those of each as one text.
    package var clauses: [String]
    /// When a worker that runs it was last seen.
    package var seenAt: Timestamp
    /// Whether that was within the last two minutes.
    package var isClaimed: Bool
    package var isPaused: Bool
    /// When the pause ends by itself.
    package var pausedUntil: Timestamp?
    /// Who or what paused it, and why.
    package var pausedReason: String?
    /// When the pause that it asked for ends; nil without one.
    package var heldUntil: Timestamp?
    /// Its reason for that pause.
    package var heldReason: String?
    /// The default limit of counts.
    package static let countLimit = 100_000
    /// The number of waiting rows; at the limit a lower bound.
    package var depth: Int
    /// The age of the oldest; nil if there is none.
    package var oldestAge: Duration?
    /// The number of dead letters; at the limit a lower bound.
    package var deadLetters: Int
    /// The workers registered for it, latest heartbeat first.
    package var workers: [HandlerWorker] = []
}

/// A worker registered for a handler.
package struct HandlerWorker: Sendable {
    /// The process for people: host and process id.
    package var worker: String
    package var categories: [String]
    /// Its conditions on `data`, which must all hold.
    package var clauses: [String]
    /// Whether it is ordered: one message per device at a time, in order of arrival.
    package var isByDevice: Bool
    /// Its latest heartbeat.
    package var seenAt: Timestamp
    /// Whether that was within the last two minutes.
    package var isLive: Bool
}

package struct HandlerStates: Sendable {
    package let connection: PostgresConnection

    package init(_ connection: PostgresConnection) {
        self.connection = connection
    }

    /// All handlers by name, with their workers; counts of deliveries and dead letters stop at `limit`.
    package func list(counted limit: Int = HandlerState.countLimit) async throws(PostgresError) -> [HandlerState] {
        let workers = try await connection.result(of: HandlerStatements.workers).map { row throws(PostgresError) in
            (handler: try row.next(String.self), worker: try row.next(HandlerWorker.init))
        }
        let byHandler = Dictionary(grouping: workers, by: \.handler)
        return try await connection.result(of: HandlerStatements.list(counted: limit)).rows {
            HandlerState(
                name: $0,
                categories: $1,
                clauses: $2,
                seenAt: $3,
                isClaimed: $4,
                isPaused: $5,
                pausedUntil: $6,
                pausedReason: $7,
                heldUntil: $8,
                heldReason: $9,
                depth: $10,
                oldestAge: $11,
                deadLetters: $12,
                workers: byHandler[$0]?.map(\.worker) ?? []
            )
        }
    }

    /// A pause in force.
    package struct Pause: Sendable, Equatable {
        /// When it ends by itself; nil if it lasts until the handler is resumed.
        package var until: Timestamp?
    }

    /// Pauses a handler in every worker, for `length` by the database's clock or until it is resumed; inside a transaction.
    ///
    /// - Returns: nil if there is no such handler.
    package static func pause(
        _ connection: isolated PostgresConnection,
        _ name: String,
        for length: Duration?,
        by author: AuditAuthor
    ) throws(PostgresError) -> Pause? {
        let pause = try connection.run(HandlerStatements.pause(name, for: length, reason: author.reason))
            .firstRow(Pause.init(until:))
        if pause != nil { try AuditLog.record(connection, .pauseHandler, subject(name), by: author) }
        return pause
    }

    /// Resumes a handler inside a transaction: ends its pause, also one that it asked for, and closes its circuit breakers.
    ///
    /// - Returns: False if there is no such handler.
    package static func resume(
        _ connection: isolated PostgresConnection,
        _ name: String,
        by author: AuditAuthor
    ) throws(PostgresError) -> Bool {
        let isKnown = try connection.run(HandlerStatements.resume(name)).affectedRows == 1
        if isKnown { try AuditLog.record(connection, .resumeHandler, subject(name), by: author) }
        return isKnown
    }

    /// The audit trail's name for a handler.
    static func subject(_ name: String) -> String { "handler \(name)" }
}

package enum HandlerRemovalError: Error, Sendable, Equatable {
    case unknown
    /// A worker has run it within the last two minutes.
    case claimed
}

extension HandlerStates {
    /// Ends a handler's subscriptions; afterwards no message gets a delivery for it.
    ///
    /// - Throws: ``HandlerRemovalError`` if it must stay; ``PostgresError``, with SQLSTATE 55P03 if the table stays
    ///   locked for more than two seconds: batches of the receive path queue behind us.
    package func unsubscribe(_ name: String, by author: AuditAuthor) async throws {
        let outcome = try await connection.inTransaction { connection throws(PostgresError) in
            try Self.unsubscribe(connection, name, by: author)
        }
        if let outcome { throw outcome }
    }

    /// The same inside a transaction; returns why the handler must stay.
    private static func unsubscribe(
        _ connection: isolated PostgresConnection,
        _ name: String,
        by author: AuditAuthor
    ) throws(PostgresError) -> HandlerRemovalError? {
        try connection.run(HandlerStatements.limitLockWait)
        if let fault = try fault(connection, name) { return fault }
        try connection.run(HandlerStatements.lockSubscriptions)
        try connection.run(HandlerStatements.empty("subscriptions", name))
        try AuditLog.record(connection, .removeHandler, subject(name), by: author)
        return nil
    }

    /// Why a handler must stay, whose row is locked.
    private static func fault(
        _ connection: isolated PostgresConnection,
        _ name: String
    ) throws(PostgresError) -> HandlerRemovalError? {
        guard let isClaimed = try connection.run(HandlerStatements.lock(name)).firstRow({ $0 as Bool }) else {
            return .unknown
        }
        return isClaimed ? .claimed : nil
    }

    /// How far a removal came by one of its transactions.
    package enum Removal: Sendable, Equatable {
        /// So many rows were deleted; there may be more.
        case under(Int)
        case done
    }

    /// The next part of a removal, inside a transaction of its own: ends the subscriptions, then deletes a batch, at last the
    /// handler; records the beginning, each batch and the end, since others may go on with it.
    package static func remove(
        _ connection: isolated PostgresConnection,
        _ name: String,
        by author: AuditAuthor
    ) throws(PostgresError) -> Result<Removal, HandlerRemovalError> {
        if let fault = try fault(connection, name) { return .failure(fault) }
        if try connection.run(HandlerStatements.isSubscribed(name)).value() {
            if let fault = try unsubscribe(connection, name, by: author) { return .failure(fault) }
            return .success(.under(0))
        }
        let count = try sweep(connection, name, limit: 5_000)
        if count > 0 {
            try AuditLog.record(connection, .removeHandler, subject(name), count: count, by: author)
            return .success(.under(count))
        }
        try remove(connection, name)
        try AuditLog.record(connection, .removeHandler, subject(name), by: author, isEnd: true)
        return .success(.done)
    }

    /// Records how many rows were deleted with a handler.
    package func removed(_ name: String, with count: Int, by author: AuditAuthor) async throws(PostgresError) {
        let subject = Self.subject(name)
        try await AuditLog.record(over: connection, .removeHandler, subject, count: count, by: author, isEnd: true)
    }

    /// Deletes one batch of an unsubscribed handler's deliveries and dead letters, and finally the handler; 0 once
    /// nothing is left.
    ///
    /// - Throws: ``HandlerRemovalError`` if a worker runs it again, whose deliveries stay, or it is gone; ``PostgresError``.
    package func sweep(_ name: String, limit: Int = 5_000) async throws -> Int {
        let outcome = try await connection.inTransaction {
            connection throws(PostgresError) -> Result<Int, HandlerRemovalError> in
            if let fault = try Self.fault(connection, name) { return .failure(fault) }
            let count = try Self.sweep(connection, name, limit: limit)
            if count == 0 { try Self.remove(connection, name) }
            return .success(count)
        }
        return try outcome.get()
    }

    private static func sweep(
        _ connection: isolated PostgresConnection,
        _ name: String,
        limit: Int
    ) throws(PostgresError) -> Int {
        for table in ["deliveries", "dead_letters"] {
            let count = try connection.run(HandlerStatements.sweep(table, name, limit: limit)).affectedRows
            if count > 0 { return count }
        }
        return 0
    }

    /// Deletes the handler and what is left of it, in one transaction.
    private static func remove(_ connection: isolated PostgresConnection, _ name: String) throws(PostgresError) {
        // Waits for a replay that is queueing more, and then deletes that too. Dead letters first: one that is
        // retried meanwhile becomes a delivery, and so does a block that is being unpacked.
        try connection.run(HandlerStatements.remove(name))
        for table in ["dead_letters", "delivery_blocks", "deliveries"] {
            try connection.run(HandlerStatements.empty(table, name))
        }
    }
}

package enum HandlerStatements {
    /// A condition: the subscription `s` is to the category of the row of this name, and lets its data pass.
    ///
    /// As in `upstream.store_batch`.
    package static func wants(_ row: String) -> SQL {
        """
        (s.category = \(raw: row).category
            OR right(s.category, 1) = '*' AND starts_with(\(raw: row).category, left(s.category, -1)))
            AND (s.filters IS NULL OR upstream.wants(s.filters, \(raw: row).data::text))
        """
    }

    /// A condition on `handlers`: a worker has recorded within two minutes that it runs it.
    static let isClaimed = "(seen_at > now() - interval '2 minutes')"

    /// A condition on `handler_workers`: its heartbeat is no older.
    static let isLive = "(heartbeat_at > now() - interval '2 minutes')"

    /// A condition on `handlers`: a pause is in force.
    package static let isPaused = "(paused AND (paused_until IS NULL OR paused_until > now()))"

    /// A condition on `handlers`: a pause that it asked for is in force.
    static let isHeld = "(held_until > now()) IS TRUE"

    /// All handlers by name; counts stop at a limit.
    ///
    /// The conditions follow the index's order: a planner that knows of one handler with a million rows would otherwise
    /// scan the whole table for another's.
    static func list(counted limit: Int) -> SQL {
        """
        SELECT
            name,
            ARRAY(SELECT category FROM upstream.subscriptions WHERE handler = name ORDER BY category),
            ARRAY(
                SELECT string_agg(c.clause->>'text', ' and ' ORDER BY c.place)
                FROM (SELECT filters FROM upstream.subscriptions WHERE handler = name LIMIT 1) AS s
                CROSS JOIN LATERAL jsonb_array_elements(s.filters) WITH ORDINALITY AS f (filter, number)
                CROSS JOIN LATERAL jsonb_array_elements(f.filter) WITH ORDINALITY AS c (clause, place)
                GROUP BY f.number, CASE WHEN jsonb_array_length(s.filters) = 1 THEN c.place END
                ORDER BY f.number, min(c.place)
            ),
            seen_at, \(raw: isClaimed),
            \(raw: isPaused), CASE WHEN \(raw: isPaused) THEN paused_until END, CASE WHEN \(raw: isPaused) THEN paused_reason END,
            CASE WHEN \(raw: isHeld) THEN held_until END, CASE WHEN \(raw: isHeld) THEN held_reason END,
            (SELECT count(*) FROM (
                SELECT FROM upstream.deliveries WHERE handler >= name AND handler <= name ORDER BY handler LIMIT \(limit)
            ) AS counted) + (
                SELECT coalesce(sum(cardinality(keys)), 0) FROM upstream.delivery_blocks WHERE handler = name
            )::int8,
            (SELECT now() - min(received_at) FROM (\(raw: DeliveryStatements.soonest)) AS soonest),
            (SELECT count(*) FROM (
                SELECT FROM upstream.dead_letters
                WHERE (handler, died_at) >= (name, '-infinity') AND (handler, died_at) <= (name, 'infinity')
                ORDER BY handler, died_at LIMIT \(limit)
            ) AS counted)
        FROM upstream.handlers ORDER BY name
        """
    }

    /// The workers registered for each handler, latest heartbeat first.
    static let workers: SQL = """
        SELECT handler, worker, categories, ARRAY(
            SELECT clause->>'text' FROM jsonb_array_elements(filter) AS own (clause)
        ), by_device, heartbeat_at, \(raw: isLive)
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

    static func isSubscribed(_ name: String) -> SQL {
        "SELECT EXISTS (SELECT FROM upstream.subscriptions WHERE handler = \(name))"
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
