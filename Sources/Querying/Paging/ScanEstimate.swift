import Foundation
package import Postgres

/// The planner's estimates for queries that are not run.
package enum ScanEstimate {
    /// Estimates how many messages a filter selects after a cursor, oldest first; nil if the plan does not say.
    package static func rows(
        _ filter: MessageFilter,
        after cursor: MessageCursor? = nil,
        _ connection: PostgresConnection
    ) async throws(PostgresError) -> Int64? {
        let sql: SQL = "EXPLAIN (FORMAT JSON) \(MessageStatements.selected(filter, from: cursor?.receivedAt))"
        // Under its own limit: it takes milliseconds, and must not use up a short one meant for the query.
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

    /// Estimates how many rows must be read one by one, because no index serves the whole filter; nil below
    /// ``threshold``.
    ///
    /// Queries the database only if no index serves the filter.
    package static func rowsToRead(
        _ filter: MessageFilter,
        _ connection: PostgresConnection
    ) async throws(PostgresError) -> Int64? {
        guard filter.messageID == nil, filter.messageKey == nil else { return nil }
        var served = filter
        // No index serves these.
        (served.clauses, served.senderID) = ([], nil)
        guard served != filter, let rows = try await rows(served, connection) else { return nil }
        return rows >= threshold ? rows : nil
    }

    /// Commands warn from this number of rows on.
    package static let threshold: Int64 = 100_000

    /// The longest that an estimate may take.
    private static let limitMilliseconds = 10_000
}

extension PostgresConnection {
    /// Makes all further transactions of the session read-only, a guard against mistakes in reading commands.
    ///
    /// Does nothing behind a pooler, where a session keeps no state.
    package func becomeReadOnly() throws(PostgresError) {
        guard !isPooled else { return }
        try run(MessageStatements.readOnly)
    }
}
