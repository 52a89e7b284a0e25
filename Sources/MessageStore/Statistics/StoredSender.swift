package import Postgres

/// A sender with messages: a row of `upstream.senders`.
package struct StoredSender: Sendable, Equatable {
    package var senderID: String
    /// What its messages' keys are derived from: `sender` or `device`; both if the configuration was changed.
    package var idScopes: [String]

    /// All senders, by id; the table has a row or two for each.
    package static func list(_ connection: PostgresConnection) async throws(PostgresError) -> [StoredSender] {
        try await connection.result(of: SenderStatements.list).map { row throws(PostgresError) in
            StoredSender(senderID: try row.next(), idScopes: try row.next())
        }
    }
}
