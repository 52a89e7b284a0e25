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
            return try connection.run(CheckStatements.facts).only { row throws(PostgresError) in
                let answered = Timestamp.now
                let (number, version): (Int, String) = (try row.next(), try row.next())
                let (role, encoding): (String, String) = (try row.next(), try row.next())
                let clock = ClockDifference(asked: asked, database: try row.next(), answered: answered)
                let (maximum, reserved, used): (Int, Int, Int) = (try row.next(), try row.next(), try row.next())
                let limits: (role: Int, database: Int) = (try row.next(), try row.next())
                return DatabaseFacts(
                    versionNumber: number,
                    version: version,
                    role: role,
                    encoding: encoding,
                    maximumConnections: maximum,
                    reservedConnections: reserved,
                    connections: used,
                    roleLimit: limits.role < 0 ? nil : limits.role,
                    databaseLimit: limits.database < 0 ? nil : limits.database,
                    database: try row.next(),
                    clock: clock
                )
            }
        }
    }
}
