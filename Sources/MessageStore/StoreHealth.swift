package import Postgres
package import Vocabulary

/// Whether the store can accept messages (`/readyz`, `check --connect`).
package enum StoreHealth: Sendable, Equatable {
    /// It can.
    case ready
    /// A standby, or a server in read-only mode.
    case readOnly
    /// The schema is not this binary's.
    case schema(SchemaState)

    /// Checks the database; `clock` learns the time of a server that takes writes.
    ///
    /// - Throws: ``MigrationError`` with the database's failure.
    package static func check(
        _ connection: PostgresConnection,
        clock: DatabaseClock? = nil
    ) async throws(MigrationError) -> StoreHealth {
        let state = try await Migrator().state(connection)
        guard state == .current else { return .schema(state) }
        let isReadOnly = try await MigrationError.catching { () throws(PostgresError) in
            try await connection.run { connection throws(PostgresError) in
                let isReadOnly = try connection.run(HealthStatements.isReadOnly).value(Bool.self)
                if !isReadOnly { try clock?.look(connection) }
                return isReadOnly
            }
        }
        guard isReadOnly else { return .ready }
        // The next session looks for the server that takes writes; this one, through a pooler, might stay here for ever.
        if connection.settings.isWriter { await connection.close() }
        return .readOnly
    }
}

extension DatabaseClock {
    /// Reads the server's clock.
    func look(_ connection: isolated PostgresConnection) throws(PostgresError) {
        let asked = ClockReading.Moment.now
        let time = try connection.databaseTime()
        learn(ClockReading(asked: asked, database: time))
    }
}

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
        try await connection.result(of: HealthStatements.upkeep).onlyRow(StoreUpkeep.init)
    }
}
