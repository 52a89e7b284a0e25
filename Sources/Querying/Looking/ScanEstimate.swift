import Foundation
package import Postgres

/// What the planner expects of a query that is not run.
package enum ScanEstimate {
    /// The planner's estimate of how many messages a filter selects.
    ///
    /// - Parameters:
    ///   - filter: Which messages.
    ///   - cursor: Only messages after this position, oldest first; nil for all.
    ///   - connection: The database.
    /// - Throws: ``PostgresError``
    /// - Returns: The number of messages; nil if the plan does not say.
    package static func rows(
        _ filter: MessageFilter,
        after cursor: MessageCursor? = nil,
        _ connection: PostgresConnection
    ) async throws(PostgresError) -> Int64? {
        let sql: SQL = "EXPLAIN (FORMAT JSON) \(MessageStatements.selected(filter, from: cursor?.receivedAt))"
        // Under a limit of its own: it takes milliseconds, and must not use up a short one that is meant for the query.
        let text = try await connection.run { connection throws(PostgresError) in
            try connection.transaction { connection throws(PostgresError) in
                try connection.limitStatements(milliseconds: limitMilliseconds, "")
                return try connection.run(sql).value(JSONColumn.self).utf8
            }
        }
        let plans = try? JSONSerialization.jsonObject(with: Data(text)) as? [[String: Any]]
        let plan = plans?.first?["Plan"] as? [String: Any]
        return (plan?["Plan Rows"] as? NSNumber)?.int64Value
    }

    /// How many rows a query may have to read one by one, because no index serves its whole filter.
    ///
    /// Queries the database only if no index serves the filter.
    ///
    /// - Throws: ``PostgresError``
    /// - Returns: The number of rows; nil below ``threshold``.
    package static func rowsToRead(
        _ filter: MessageFilter,
        _ connection: PostgresConnection
    ) async throws(PostgresError) -> Int64? {
        guard filter.hasResidue, filter.messageID == nil, filter.messageKey == nil,
            let rows = try await rows(filter.withoutResidue, connection), rows >= threshold
        else { return nil }
        return rows
    }

    /// From this number of rows on, commands print a warning.
    package static let threshold: Int64 = 100_000

    /// The longest that an estimate may take.
    private static let limitMilliseconds = 10_000
}
