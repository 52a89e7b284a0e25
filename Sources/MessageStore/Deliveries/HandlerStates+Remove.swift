package import Postgres

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
            let isClaimed = try connection.run(HandlerStatements.lock(name))
                .first { row throws(PostgresError) in try row.next(Bool.self) }
            guard let isClaimed else { return .unknown }
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
        try await AuditLog.record(
            over: connection,
            .removeHandler,
            Self.subject(name),
            count: count,
            by: author,
            isEnd: true
        )
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
