package import Postgres
package import Vocabulary

/// A registered handler as `handlers list` shows it.
package struct HandlerState: Sendable {
    package var name: String
    /// The categories that it is subscribed to.
    package var categories: [String]
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
        let sql = HandlerStatements.list(counted: limit)
        return try await connection.run { connection throws(PostgresError) in
            let workers = try Self.workers(connection)
            return try connection.run(sql).rows {
                HandlerState(
                    name: $0,
                    categories: $1,
                    seenAt: $2,
                    isClaimed: $3,
                    isPaused: $4,
                    pausedUntil: $5,
                    pausedReason: $6,
                    heldUntil: $7,
                    heldReason: $8,
                    depth: $9,
                    oldestAge: $10,
                    deadLetters: $11,
                    workers: workers[$0] ?? []
                )
            }
        }
    }

    /// The workers that ask for each handler.
    private static func workers(
        _ connection: isolated PostgresConnection
    ) throws(PostgresError) -> [String: [HandlerWorker]] {
        let rows = try connection.run(HandlerStatements.workers).rows {
            ($0 as String, HandlerWorker(worker: $1, categories: $2, isByDevice: $3, seenAt: $4, isLive: $5))
        }
        return Dictionary(grouping: rows, by: \.0).mapValues { $0.map(\.1) }
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
        let outcome = try await connection.inTransaction { connection throws(PostgresError) -> HandlerRemovalError? in
            try connection.run(HandlerStatements.limitLockWait)
            guard let isClaimed = try connection.run(HandlerStatements.lock(name)).firstRow({ $0 as Bool }) else {
                return .unknown
            }
            guard !isClaimed else { return .claimed }
            try connection.run(HandlerStatements.lockSubscriptions)
            try connection.run(HandlerStatements.empty("subscriptions", name))
            try AuditLog.record(connection, .removeHandler, Self.subject(name), by: author)
            return nil
        }
        if let outcome { throw outcome }
    }

    /// Records how many rows were deleted with a handler.
    package func removed(_ name: String, with count: Int, by author: AuditAuthor) async throws(PostgresError) {
        let subject = Self.subject(name)
        try await AuditLog.record(over: connection, .removeHandler, subject, count: count, by: author, isEnd: true)
    }

    /// Deletes one batch of an unsubscribed handler's deliveries and dead letters, and finally the handler; 0 once
    /// nothing is left.
    package func sweep(_ name: String, limit: Int = 5_000) async throws(PostgresError) -> Int {
        try await connection.run { connection throws(PostgresError) in
            for table in ["deliveries", "dead_letters"] {
                let count = try connection.run(HandlerStatements.sweep(table, name, limit: limit)).affectedRows
                if count > 0 { return count }
            }
            try connection.transaction { connection throws(PostgresError) in
                // Waits for a replay that is queueing more, and then deletes that too. Dead letters first: one that is
                // retried meanwhile becomes a delivery, and so does a block that is being unpacked.
                try connection.run(HandlerStatements.remove(name))
                for table in ["dead_letters", "delivery_blocks", "deliveries"] {
                    try connection.run(HandlerStatements.empty(table, name))
                }
            }
            return 0
        }
    }
}
