package import Postgres

/// A sender that has messages: a row of `upstream.senders`.
package struct StoredSender: Sendable, Equatable {
    /// The configured sender.
    package var senderID: String
    /// What its messages' keys are derived from: `sender` or `device`; both where the configuration was changed.
    package var idScopes: [String]

    /// All of them, by id; the table has a row or two for each.
    ///
    /// - Parameter connection: A session that may select from the schema's tables.
    /// - Throws: ``PostgresError``
    /// - Returns: One for each id.
    package static func list(_ connection: PostgresConnection) async throws(PostgresError) -> [StoredSender] {
        try await connection.run { connection throws(PostgresError) in
            try connection.run(SenderStatements.list).map { row throws(PostgresError) in
                StoredSender(senderID: try row.next(), idScopes: try row.next())
            }
        }
    }
}
