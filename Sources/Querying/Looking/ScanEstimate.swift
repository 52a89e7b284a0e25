import Foundation
package import Postgres

/// What the planner expects of a query, without running it.
package enum ScanEstimate {
    /// How many rows of a table the filter lets through, by the planner's statistics.
    ///
    /// - Parameters:
    ///   - filter: Which rows.
    ///   - cursor: Only rows behind this place, oldest first; nil for all.
    ///   - connection: The database.
    /// - Throws: ``PostgresError``
    /// - Returns: The number of rows; nil where the plan does not say.
    package static func rows(
        _ filter: MessageFilter,
        after cursor: MessageCursor? = nil,
        _ connection: PostgresConnection
    ) async throws(PostgresError) -> Int64? {
        var values = SQLValues()
        var condition = filter.condition(&values)
        if let cursor { condition += " AND m.received_at >= \(values.bind(time: cursor.receivedAt))" }
        let sql = "EXPLAIN (FORMAT JSON) SELECT FROM upstream.messages AS m WHERE \(condition)"
        let (statement, parameters) = (sql, values)
        let text = try await connection.run { connection throws(PostgresError) in
            try connection.query(statement, parameters).bytes(0, 0) ?? []
        }
        let plans = try? JSONSerialization.jsonObject(with: Data(text)) as? [[String: Any]]
        let plan = plans?.first?["Plan"] as? [String: Any]
        return (plan?["Plan Rows"] as? NSNumber)?.int64Value
    }

    /// How many rows a query may have to read one by one, because no index answers all of its filter.
    ///
    /// Asks nothing of the database where indexes answer it.
    ///
    /// - Throws: ``PostgresError``
    /// - Returns: nil where the number is too small to mention.
    package static func rowsToRead(
        _ filter: MessageFilter,
        _ connection: PostgresConnection
    ) async throws(PostgresError) -> Int64? {
        guard filter.hasResidue, filter.messageID == nil, filter.messageKey == nil,
            let rows = try await rows(filter.withoutResidue, connection), rows >= threshold
        else { return nil }
        return rows
    }

    /// From here on a number of rows is worth a word.
    package static let threshold: Int64 = 100_000
}
