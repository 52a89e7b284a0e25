package import Postgres
package import Vocabulary

/// The store's upkeep: partitions ahead of the messages, and retention behind them (`/metrics`).
package struct StoreUpkeep: Sendable, Equatable {
    /// The days after today (UTC, by the database's clock) with a partition, up to the first without.
    package var daysAhead: Int
    /// When the last complete run of retention began; nil if there was none.
    package var lastRetention: Timestamp?
    /// The expired partitions that it kept for their deliveries.
    package var heldPartitions: Int
    /// The age in transactions of the server's oldest transaction id or multixact id.
    package var transactionAge: Int64

    /// Reads the catalog and a row of `retention_runs`.
    package static func look(_ connection: PostgresConnection) async throws(PostgresError) -> StoreUpkeep {
        try await connection.result(of: HealthStatements.upkeep).only { row throws(PostgresError) in
            StoreUpkeep(
                daysAhead: try row.next(),
                lastRetention: try row.next(),
                heldPartitions: try row.next(),
                transactionAge: try row.next()
            )
        }
    }
}
