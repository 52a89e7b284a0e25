package import Postgres
package import UpstreamKit
package import Vocabulary

/// The registration tokens of some messages, for masking in what handlers said; never shown themselves.
package struct TokensOfMessages: Sendable {
    private let tokens: [MessageKey: [String]]

    package init() { tokens = [:] }

    /// Reads them in one statement that looks up every message by key; deleted messages have none.
    package init(
        of places: [(key: MessageKey, receivedAt: Timestamp)],
        _ connection: PostgresConnection
    ) async throws(PostgresError) {
        guard !places.isEmpty else {
            tokens = [:]
            return
        }
        let sql = TokenStatements.tokens(places)
        let rows = try await connection.result(of: sql).map { row throws(PostgresError) in
            (
                key: MessageKey(try row.next(Digest128.self)), token: try row.next(String?.self),
                receipt: try row.next(String?.self)
            )
        }
        var tokens: [MessageKey: [String]] = [:]
        for row in rows { tokens[row.key, default: []] += [row.token, row.receipt].compactMap(\.self) }
        self.tokens = tokens
    }

    package subscript(_ key: MessageKey) -> [String] { tokens[key] ?? [] }
}
