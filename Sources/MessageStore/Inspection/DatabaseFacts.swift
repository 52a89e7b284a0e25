package import Postgres
package import Vocabulary

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
    /// The difference between this process's clock and the database's.
    package var clock: ClockDifference

    package static func ask(_ connection: PostgresConnection) async throws(PostgresError) -> DatabaseFacts {
        try await connection.run { connection throws(PostgresError) in
            let asked = Timestamp.now
            let result = try connection.run(CheckStatements.facts)
            let answered = Timestamp.now
            func limit(_ count: Int) -> Int? { count < 0 ? nil : count }
            return try result.onlyRow {
                DatabaseFacts(
                    versionNumber: $0,
                    version: $1,
                    role: $2,
                    encoding: $3,
                    maximumConnections: $5,
                    reservedConnections: $6,
                    connections: $7,
                    roleLimit: limit($8),
                    databaseLimit: limit($9),
                    database: $10,
                    clock: ClockDifference(asked: asked, database: $4, answered: answered)
                )
            }
        }
    }
}
