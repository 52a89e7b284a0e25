import Postgres
import Worker

extension CommonOptions {
    /// Reads what a command needs that works on the database alone: the names of senders' secrets, handlers' files and the
    /// console's tokens may name what this user can't read, such as systemd's credentials in a shell.
    func loadDatabase(_ context: CommandContext) throws -> WorkerConfiguration {
        try load(context, needsSenders: false, parts: []).configuration
    }

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
        let configuration = try loadDatabase(context)
        var settings = try PostgresSettings(url: configuration.database.url)
        if let statementTimeout { settings.statementTimeout = statementTimeout }
        let connection = try await PostgresConnection.open(settings)
        let result = try await body(connection, configuration)
        await connection.close()
        return result
    }
}
