package import Postgres
package import UpstreamKit
package import Vocabulary

/// The registration tokens of some messages, to be found in what handlers said of them; never shown themselves.
package struct TokensOfMessages: Sendable {
    private let tokens: [MessageKey: [String]]

    /// None.
    package init() { tokens = [:] }

    /// Reads them: one statement, which looks every message up by its key.
    ///
    /// - Parameters:
    ///   - places: The messages; those that are gone have none.
    ///   - connection: A session that may select from the tables.
    /// - Throws: ``PostgresError``
    package init(
        of places: [(key: MessageKey, receivedAt: Timestamp)],
        _ connection: PostgresConnection
    ) async throws(PostgresError) {
        guard !places.isEmpty else {
            tokens = [:]
            return
        }
        let sql = TokenStatements.tokens(places)
        let rows = try await connection.run { connection throws(PostgresError) in
            try connection.run(sql).map { row throws(PostgresError) in
                (
                    key: MessageKey(try row.next(Digest128.self)), token: try row.next(String?.self),
                    receipt: try row.next(String?.self)
                )
            }
        }
        var tokens: [MessageKey: [String]] = [:]
        for row in rows { tokens[row.key, default: []] += [row.token, row.receipt].compactMap(\.self) }
        self.tokens = tokens
    }

    /// Those of a message.
    package subscript(_ key: MessageKey) -> [String] { tokens[key] ?? [] }
}
