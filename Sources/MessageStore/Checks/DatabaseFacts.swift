package import Postgres
package import Vocabulary

/// A server and our session there, as `check --connect` shows them.
package struct DatabaseFacts: Sendable, Equatable {
    /// `server_version_num`: 150018 for 15.18.
    package var versionNumber: Int
    /// `server_version`.
    package var version: String
    /// The role that statements run as.
    package var role: String
    /// `server_encoding`.
    package var encoding: String
    /// `max_connections`.
    package var maximumConnections: Int
    /// How many of them are reserved for other roles.
    package var reservedConnections: Int
    /// How many are in use, ours included.
    package var connections: Int
    /// How many sessions the role may have; nil for any number.
    package var roleLimit: Int?
    /// How many sessions the database may have; nil for any number.
    package var databaseLimit: Int?
    /// The database's name.
    package var database: String
    /// How far this process's clock is from the database's.
    package var clock: ClockDifference

    /// Asks the database.
    ///
    /// - Throws: ``PostgresError``
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
