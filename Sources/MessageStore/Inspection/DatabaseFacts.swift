import Glibc
package import Postgres
import Vocabulary

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

extension PostgresConnection {
    /// Tries to read messages, as whoever reads from a standby does.
    package nonisolated func tryReading() async throws(PostgresError) {
        _ = try await result(of: CheckStatements.messages)
    }

    /// Has the server judge regular expressions; fails with class 22 where one is none.
    package nonisolated func judge(_ expressions: [String]) async throws(PostgresError) {
        _ = try await result(of: CheckStatements.expressions(expressions))
    }

    /// What primary and standbys share, and nobody else.
    package nonisolated func cluster() async throws(PostgresError) -> String {
        try await result(of: CheckStatements.cluster).value()
    }
}

/// Our tables, where the extension Citus is installed.
package enum CitusTables {
    /// Why it can't keep the guarantees; nil without it, and where it left our tables as they are.
    package static func refusal(_ connection: PostgresConnection) async -> String? {
        guard
            let release = try? await connection.result(of: CheckStatements.citus).rows(as: String.self).first,
            let tables = try? await connection.result(of: CheckStatements.spreadTables).rows(as: String.self)
        else { return nil }
        return refusal(release: release, tables: tables)
    }

    static func refusal(release: String, tables: [String]) -> String? {
        guard let first = tables.first else { return nil }
        return "Citus \(release) spreads \(Amount.counted(tables.count, "table")) of the schema upstream over servers, "
            + "\(first) for one: there FOR UPDATE and unique keys do not hold as our statements need"
    }
}

/// The disk of a database, as far as it can be seen from this machine.
package enum DatabaseDisk: Sendable, Equatable {
    package struct Space: Sendable, Equatable {
        /// The server's own folder, or a tablespace's.
        package var folder: String
        package var free: Int64
    }

    /// The folder with the least space.
    case seen(Space)
    /// The role may not see the data directory.
    case hidden
    /// The folder is not on this machine.
    case elsewhere(folder: String)

    /// Finds the data's folders; `freeSpace` tells the free bytes at a folder, nil if unknown.
    package static func look(
        _ connection: PostgresConnection,
        freeSpace: @Sendable (String) -> Int64? = freeSpace
    ) async throws(PostgresError) -> DatabaseDisk {
        let (isLocal, data, tablespaces): (Bool, String?, [String]) =
            try await connection.result(of: CheckStatements.disk).onlyRow { ($0, $1, $2) }
        guard let data else { return .hidden }
        guard isLocal, let free = freeSpace(data) else { return .elsewhere(folder: data) }
        let spaces = tablespaces.compactMap { folder in freeSpace(folder).map { Space(folder: folder, free: $0) } }
        return .seen(spaces.reduce(Space(folder: data, free: free)) { $1.free < $0.free ? $1 : $0 })
    }

    /// The bytes that an unprivileged process may still write at a folder; nil if it can't be reached.
    package static func freeSpace(of folder: String) -> Int64? {
        var answer = statvfs()
        guard statvfs(folder, &answer) == 0 else { return nil }
        let (bytes, isTooMany) = UInt64(answer.f_bavail).multipliedReportingOverflow(by: UInt64(answer.f_frsize))
        return isTooMany ? .max : Int64(clamping: bytes)
    }
}
