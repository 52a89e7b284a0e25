package import Postgres

/// Facts about a server and our session, as `check --connect` shows them.
package struct DatabaseFacts: Sendable, Equatable {
    /// `server_version_num`: 150018 for 15.18.
    package var versionNumber: Int
    package var version: String
    /// The role that statements run as.
    package var role: String
    package var encoding: String
    /// `max_connections`.
    package var maximumConnections: Int
    /// Connections reserved for other roles.
    package var reservedConnections: Int
    /// Connections in use, ours included.
    package var connections: Int
    /// The role's connection limit; nil for none.
    package var roleLimit: Int?
    /// The database's connection limit; nil for none.
    package var databaseLimit: Int?
    package var database: String

    package static func ask(_ connection: PostgresConnection) async throws(PostgresError) -> DatabaseFacts {
        try await connection.result(of: CheckStatements.facts).onlyRow(DatabaseFacts.init)
    }
}
