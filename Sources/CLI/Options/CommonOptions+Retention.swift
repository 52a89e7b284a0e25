import Postgres
import Worker

extension CommonOptions {
    /// Connects to the configuration's database and hands on the connection together with the configuration.
    ///
    /// - Parameters:
    ///   - statementTimeout: The longest that one statement may take, in milliseconds; nil for the usual limit.
    ///   - body: What to do with them.
    /// - Returns: What `body` returns.
    /// - Throws: What the configuration, the database and `body` throw.
    func withDatabase<T>(
        statementTimeout: Int? = nil,
        _ body: (PostgresConnection, WorkerConfiguration) async throws -> T
    ) async throws -> T {
        let configuration = try load(needsSenders: false).configuration
        var settings = try PostgresSettings(url: configuration.database.url)
        if let statementTimeout { settings.statementTimeout = statementTimeout }
        let connection = try await PostgresConnection.open(settings)
        let result = try await body(connection, configuration)
        await connection.close()
        return result
    }
}
