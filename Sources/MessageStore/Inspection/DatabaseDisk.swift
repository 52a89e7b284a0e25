import Glibc
package import Postgres

/// The disk of a database, as far as it can be seen from this machine.
package enum DatabaseDisk: Sendable, Equatable {
    package struct Space: Sendable, Equatable {
        /// The server's own folder, or a tablespace's.
        package var folder: String
        package var free: Int64

        package init(folder: String, free: Int64) {
            self.folder = folder
            self.free = free
        }
    }

    /// The folder with the least space.
    case seen(Space)
    /// The role may not see the data directory.
    case hidden
    /// The folder is not on this machine.
    case elsewhere(folder: String)

    /// Finds the data's folders and their free space.
    ///
    /// - Parameters:
    ///   - connection: Any session.
    ///   - freeSpace: The free bytes at a folder; nil if unknown.
    /// - Throws: ``PostgresError``
    /// - Returns: The free space, or why it can't be seen.
    package static func look(
        _ connection: PostgresConnection,
        freeSpace: @Sendable (String) -> Int64? = freeSpace
    ) async throws(PostgresError) -> DatabaseDisk {
        let place = try await connection.result(of: CheckStatements.disk).only { row throws(PostgresError) in
            (
                isLocal: try row.next(Bool.self), data: try row.next(String?.self),
                spaces: try row.next([String].self)
            )
        }
        guard let data = place.data else { return .hidden }
        guard place.isLocal, let free = freeSpace(data) else { return .elsewhere(folder: data) }
        let spaces = place.spaces.compactMap { folder in freeSpace(folder).map { Space(folder: folder, free: $0) } }
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
