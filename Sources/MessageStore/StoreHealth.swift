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
        do throws(PostgresError) {
            let isReadOnly = try await connection.run { connection throws(PostgresError) in
                let isReadOnly = try connection.run(HealthStatements.isReadOnly).value(Bool.self)
                if !isReadOnly { try clock?.look(connection) }
                return isReadOnly
            }
            guard isReadOnly else { return .ready }
            // The next session looks for the server that takes writes; this one, through a pooler, might stay here for
            // ever.
            if connection.settings.isWriter { await connection.close() }
            return .readOnly
        } catch {
            throw .database(error, version: nil)
        }
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
