import Postgres
import Worker

extension CommonOptions {
    /// Reads the configuration, connects to its database and lends the connection to `body`.
    func withConnection<T>(
        _ context: CommandContext,
        statementTimeout: Int? = nil,
        _ body: (PostgresConnection) async throws -> T
    ) async throws -> T {
        try await withDatabase(context, statementTimeout: statementTimeout) { connection, _ in
            try await body(connection)
        }
    }

    /// Connects to the configuration's database and lends the connection together with the configuration.
    ///
    /// - Parameters:
    ///   - context: What the command gets from outside.
    ///   - statementTimeout: The longest that one statement may take, in milliseconds; nil for the usual limit.
    ///   - body: Uses them.
    /// - Returns: What `body` returns.
    /// - Throws: What the configuration, the database and `body` throw.
    func withDatabase<T>(
        _ context: CommandContext,
        statementTimeout: Int? = nil,
        _ body: (PostgresConnection, WorkerConfiguration) async throws -> T
    ) async throws -> T {
        let configuration = try load(context, needsSenders: false).configuration
        var settings = try PostgresSettings(url: configuration.database.url)
        if let statementTimeout { settings.statementTimeout = statementTimeout }
        let connection = try await PostgresConnection.open(settings)
        let result = try await body(connection, configuration)
        await connection.close()
        return result
    }
}
