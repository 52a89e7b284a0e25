package import Postgres

/// Why a handler could not be removed.
package enum HandlerRemovalError: Error, Sendable, Equatable {
    /// There is no such handler.
    case unknown
    /// A worker has run it within the last minutes.
    case claimed
}

extension HandlerStates {
    /// Ends a handler's subscriptions; once this has returned, no message gets a delivery for it any more.
    ///
    /// - Throws: ``HandlerRemovalError`` where it must stay; ``PostgresError``, with SQLSTATE 55P03 where somebody keeps
    ///   the table locked for more than two seconds: batches of the receive path wait behind us.
    package func unsubscribe(_ name: String, by author: AuditAuthor) async throws {
        let outcome = try await connection.run { connection throws(PostgresError) -> HandlerRemovalError? in
            try connection.transaction { connection throws(PostgresError) in
                try connection.run(HandlerStatements.limitLockWait)
                let isClaimed = try connection.run(HandlerStatements.lock(name))
                    .first { row throws(PostgresError) in try row.next(Bool.self) }
                guard let isClaimed else { return .unknown }
                guard !isClaimed else { return .claimed }
                try connection.run(HandlerStatements.lockSubscriptions)
                try connection.run(HandlerStatements.unsubscribe(name))
                try AuditLog.record(connection, .removeHandler, Self.subject(name), by: author)
                return nil
            }
        }
        if let outcome { throw outcome }
    }

    /// Records how much was deleted with a handler.
    ///
    /// - Throws: ``PostgresError``
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

    /// Deletes one batch of an unsubscribed handler's deliveries and dead letters, and finally the handler itself.
    ///
    /// - Throws: ``PostgresError``
    /// - Returns: How many rows; 0 once nothing is left.
    package func sweep(_ name: String, limit: Int = 5_000) async throws(PostgresError) -> Int {
        try await connection.run { connection throws(PostgresError) in
            for sweep in [HandlerStatements.sweepDeliveries, HandlerStatements.sweepDeadLetters] {
                let count = try connection.run(sweep(name, limit)).affectedRows
                if count > 0 { return count }
            }
            try connection.transaction { connection throws(PostgresError) in
                // Waits for a replay that is queueing more, and then deletes that too. Dead letters first: one that is
                // retried meanwhile becomes a delivery.
                try connection.run(HandlerStatements.remove(name))
                try connection.run(HandlerStatements.removeDeadLetters(name))
                try connection.run(HandlerStatements.removeBlocks(name))
                try connection.run(HandlerStatements.removeDeliveries(name))
            }
            return 0
        }
    }
}
