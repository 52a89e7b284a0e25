package import Postgres
package import Vocabulary

package enum ReplayTable {
    package static func list(
        _ connection: isolated PostgresConnection,
        limit: Int = 100
    ) throws(PostgresError) -> [Replay] {
        try connection.run(ReplayStatements.list(limit: limit)).map(Replay.read).compactMap(\.self)
    }

    /// The replay with this name or id: the unfinished one, else the newest.
    package static func find(
        _ connection: isolated PostgresConnection,
        _ nameOrID: String
    ) throws(PostgresError) -> Replay? {
        try connection.run(ReplayStatements.find(nameOrID)).first(Replay.read) ?? nil
    }

    /// Running replays to handlers that no process holds.
    package static func abandoned(_ connection: isolated PostgresConnection) throws(PostgresError) -> [Replay] {
        try connection.run(ReplayStatements.abandoned).map(Replay.read).compactMap(\.self)
    }

    package struct HistoryEntry: Sendable {
        package var at: Timestamp
        package var event: String
        package var who: String
        package var done: Int64
        package var detail: String?
    }

    /// A replay's history, oldest first.
    package static func history(
        _ connection: isolated PostgresConnection,
        of id: Digest128
    ) throws(PostgresError) -> [HistoryEntry] {
        try connection.run(ReplayStatements.history(of: id)).rows(HistoryEntry.init)
    }

    /// Counts a replay's pending deliveries, and its dead letters; each count stops at 100,000.
    package static func deliveries(
        _ connection: isolated PostgresConnection,
        of replay: Replay
    ) throws(PostgresError) -> (waiting: Int64, dead: Int64) {
        guard case .handlers(let names, _) = replay.target else { return (0, 0) }
        return try connection.run(ReplayStatements.deliveries(of: replay.id, to: names)).onlyRow { ($0, $1) }
    }

    static func note(
        _ connection: isolated PostgresConnection,
        _ id: Digest128,
        _ event: String,
        who: String,
        detail: String?
    ) throws(PostgresError) {
        try connection.run(ReplayStatements.note(id, event, who: who, detail: detail))
    }
}
