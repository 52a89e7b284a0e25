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
        let rows = try await connection.result(of: RecordStatements.tokens(places)).rows {
            (key: MessageKey, token: String?, receipt: String?) in (key, [token, receipt].compactMap(\.self))
        }
        tokens = Dictionary(rows, uniquingKeysWith: +)
    }

    package subscript(_ key: MessageKey) -> [String] { tokens[key] ?? [] }
}
