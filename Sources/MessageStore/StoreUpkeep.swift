package import Postgres
package import Vocabulary

/// Whether what keeps the store going is done: partitions ahead of the messages, and retention behind them (`/metrics`).
package struct StoreUpkeep: Sendable, Equatable {
    /// The days after today (UTC, by the database's clock) that have a partition, up to the first that has none.
    package var daysAhead: Int
    /// When the last complete run of retention began; nil where there was none.
    package var lastRetention: Timestamp?
    /// The expired partitions that it had to keep, as deliveries needed them.
    package var heldPartitions: Int
    /// How many transactions old the oldest transaction id, or multixact id, of the server is.
    package var transactionAge: Int64

    /// Asks the database; reads the catalog and a row of `retention_runs`.
    ///
    /// - Throws: ``PostgresError``
    package static func look(_ connection: PostgresConnection) async throws(PostgresError) -> StoreUpkeep {
        try await connection.run { connection throws(PostgresError) in
            let found = try connection.run(HealthStatements.upkeep).map { row throws(PostgresError) in
                StoreUpkeep(
                    daysAhead: try row.next(),
                    lastRetention: try row.next(),
                    heldPartitions: try row.next(),
                    transactionAge: try row.next()
                )
            }
            return found.first ?? StoreUpkeep(daysAhead: 0, lastRetention: nil, heldPartitions: 0, transactionAge: 0)
        }
    }
}
