package import Postgres
package import Vocabulary

/// Checks that a handler's function exists and may be called, without calling it (`check --connect`).
package enum FunctionProbe {
    /// Resolves the function with a message's row, and checks the right to call it, as a delivery does.
    ///
    /// Throws a ``PostgresError`` of class `schema` if there is no such function, of class `permission` if the
    /// connection's role may not call it.
    package static func run(
        _ function: SQLFunction,
        on connection: PostgresConnection
    ) async throws(PostgresError) {
        let nobody = FunctionStatements.Message(key: Digest128(high: 0, low: 0), receivedAt: .now)
        try await connection.run { connection throws(PostgresError) in
            try connection.trial { connection throws(PostgresError) in
                _ = try connection.run(FunctionStatements.call(function, nobody).explained)
            }
        }
    }
}
