import Postgres

/// What a server holds of a round.
struct Holding {
    var messages: [String]
    var conflicts: [String]
    var oddities: [String]

    /// Reads what the database at `url` holds under ids that begin with `prefix`.
    static func read(at url: String, _ prefix: String) async throws -> Holding {
        func ids(_ table: String) async throws -> [String] {
            try await FailoverTests.texts(
                "SELECT message_id FROM upstream.\(table) WHERE message_id LIKE '\(prefix)-%'",
                at: url
            )
        }
        return Holding(
            messages: try await ids("messages"),
            conflicts: try await ids("conflicts"),
            oddities: try await ids("quarantine")
        )
    }

    /// Ids whose acks have nothing to show for them.
    func missing(_ account: Peer.Account) -> [String] {
        account.ackedMessages.subtracting(messages).map { "message " + $0 }
            + account.ackedConflicts.subtracting(conflicts).map { "conflict " + $0 }
            + account.ackedOddities.subtracting(oddities).map { "quarantine " + $0 }
    }
}

extension FailoverTests {
    /// The first column of a query, in a session of its own: the server may have been another a moment ago.
    static func texts(_ sql: String, at url: String) async throws -> [String] {
        let connection = try await PostgresConnection.open(PostgresSettings(url: url))
        let texts = try await connection.run { connection throws(PostgresError) in
            let result = try connection.query(sql)
            return try result.map { row throws(PostgresError) in try row.next(String?.self) ?? "NULL" }
        }
        await connection.close()
        return texts
    }
}
