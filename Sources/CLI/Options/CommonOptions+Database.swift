import Postgres
import Worker

extension CommonOptions {
    /// Reads the configuration, connects to its database and hands the connection to `body`.
    func withConnection<T>(_ body: (PostgresConnection) async throws -> T) async throws -> T {
        let configuration = try load(needsSenders: false).configuration
        let connection = try await PostgresConnection.open(PostgresSettings(url: configuration.database.url))
        let result = try await body(connection)
        await connection.close()
        return result
    }
}
