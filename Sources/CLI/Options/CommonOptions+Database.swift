import Postgres
import UpstreamConfiguration

extension CommonOptions {
    /// Reads the configuration for a command that needs only the database.
    ///
    /// Secrets of senders, files of handlers and tokens of the console may not be readable to this user, such as
    /// systemd's credentials in a shell.
    func loadDatabase(_ context: CommandContext) throws -> WorkerConfiguration {
        try load(context, needsSenders: false, parts: []).configuration
    }

    /// Connects to the configured database and lends the connection.
    func withConnection<T>(
        _ context: CommandContext,
        statementTimeout: Int? = nil,
        _ body: (PostgresConnection) async throws -> T
    ) async throws -> T {
        try await withDatabase(context, statementTimeout: statementTimeout) { connection, _ in
            try await body(connection)
        }
    }

    /// Connects to the configured database and lends the connection and the configuration.
    ///
    /// `statementTimeout` is in milliseconds; nil for the default.
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
