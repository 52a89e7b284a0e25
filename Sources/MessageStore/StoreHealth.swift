package import Postgres

/// Whether the store can take messages (`/readyz`, `check --connect`).
package enum StoreHealth: Sendable, Equatable {
    /// It can.
    case ready
    /// A standby, or a server in read-only mode.
    case readOnly
    /// The schema is not the one of this binary.
    case schema(SchemaState)

    /// Asks the database.
    ///
    /// - Throws: ``MigrationError`` with the database's failure.
    package static func check(_ connection: PostgresConnection) async throws(MigrationError) -> StoreHealth {
        let state = try await Migrator().state(connection)
        guard state == .current else { return .schema(state) }
        do throws(PostgresError) {
            let isReadOnly = try await connection.run { connection throws(PostgresError) in
                try connection.run(HealthStatements.isReadOnly).value(Bool.self)
            }
            guard isReadOnly else { return .ready }
            // The next session looks for the server that takes writes; this one, through a pooler, might stay here for ever.
            if connection.settings.isWriter { await connection.close() }
            return .readOnly
        } catch {
            throw .database(error, version: nil)
        }
    }
}
