package import Postgres

/// Why a handler could not be taken away.
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
    package func unsubscribe(_ name: String) async throws {
        let outcome = try await connection.run { connection throws(PostgresError) -> HandlerRemovalError? in
            try connection.transaction { connection throws(PostgresError) in
                try connection.script("SET LOCAL lock_timeout = '2s'")
                var parameters = PostgresParameters()
                parameters.append(name)
                let known = try connection.query(
                    "SELECT \(Self.isClaimed) FROM upstream.handlers WHERE name = $1 FOR UPDATE",
                    parameters
                )
                guard let isClaimed = known.bool(0, 0) else { return .unknown }
                guard !isClaimed else { return .claimed }
                // Waits for batches that have read the subscriptions: their deliveries are visible afterwards.
                try connection.script("LOCK TABLE upstream.subscriptions IN ACCESS EXCLUSIVE MODE")
                _ = try connection.query("DELETE FROM upstream.subscriptions WHERE handler = $1", parameters)
                return nil
            }
        }
        if let outcome { throw outcome }
    }

    /// Deletes a part of what an unsubscribed handler leaves: its deliveries, its dead letters, and at last itself.
    ///
    /// - Throws: ``PostgresError``
    /// - Returns: How many rows; 0 once nothing is left.
    package func sweep(_ name: String, limit: Int = 5_000) async throws(PostgresError) -> Int {
        try await connection.run { connection throws(PostgresError) in
            var parameters = PostgresParameters()
            parameters.append(name)
            parameters.append(Int64(limit))
            for table in ["deliveries", "dead_letters"] {
                let count = try connection.query(
                    """
                    DELETE FROM upstream.\(table) WHERE ctid = ANY (ARRAY(
                        SELECT ctid FROM upstream.\(table) WHERE handler = $1 LIMIT $2 FOR UPDATE SKIP LOCKED
                    ))
                    """,
                    parameters
                ).affectedRows
                if count > 0 { return count }
            }
            try connection.transaction { connection throws(PostgresError) in
                var handler = PostgresParameters()
                handler.append(name)
                // Waits for a replay's step that is about to queue more, and then takes that, too; dead letters first, for
                // one that is retried at this moment becomes a delivery.
                for statement in [
                    "DELETE FROM upstream.handlers WHERE name = $1",
                    "DELETE FROM upstream.dead_letters WHERE handler = $1",
                    "DELETE FROM upstream.deliveries WHERE handler = $1",
                ] {
                    _ = try connection.query(statement, handler)
                }
            }
            return 0
        }
    }
}
