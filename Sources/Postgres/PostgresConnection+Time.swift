package import Vocabulary

extension PostgresConnection {
    /// Reads the server's clock, from which ages are counted back.
    package func databaseTime() throws(PostgresError) -> Timestamp {
        try run("SELECT clock_timestamp()").value()
    }

    /// Reads the server's clock, from which ages are counted back.
    package nonisolated func databaseTime() async throws(PostgresError) -> Timestamp {
        try await run { connection throws(PostgresError) in try connection.databaseTime() }
    }
}
