package import Postgres
package import Vocabulary

/// The tables `replays` and `replay_events`: what people look at and decide.
package enum ReplayTable {
    /// All replays, the newest first.
    ///
    /// - Throws: ``PostgresError``
    package static func list(
        _ connection: isolated PostgresConnection,
        limit: Int = 100
    ) throws(PostgresError) -> [Replay] {
        try connection.run(ReplayStatements.list(limit: limit)).map(Replay.read).compactMap(\.self)
    }

    /// The replay with this name or id: the one that has not ended, else the newest.
    ///
    /// - Throws: ``PostgresError``
    package static func find(
        _ connection: isolated PostgresConnection,
        _ nameOrID: String
    ) throws(PostgresError) -> Replay? {
        try connection.run(ReplayStatements.find(nameOrID)).first(Replay.read) ?? nil
    }

    /// Running replays to handlers that no process holds.
    ///
    /// - Throws: ``PostgresError``
    package static func abandoned(_ connection: isolated PostgresConnection) throws(PostgresError) -> [Replay] {
        try connection.run(ReplayStatements.abandoned).map(Replay.read).compactMap(\.self)
    }

    /// An entry of a replay's history.
    package struct HistoryEntry: Sendable {
        /// When it happened.
        package var at: Timestamp
        /// What happened.
        package var event: String
        /// Who did it.
        package var who: String
        /// How many messages were done by then.
        package var done: Int64
        /// Details.
        package var detail: String?
    }

    /// A replay's history, the oldest first.
    ///
    /// - Throws: ``PostgresError``
    package static func history(
        _ connection: isolated PostgresConnection,
        of id: Digest128
    ) throws(PostgresError) -> [HistoryEntry] {
        try connection.run(ReplayStatements.history(of: id)).map { row throws(PostgresError) in
            HistoryEntry(
                at: try row.next(),
                event: try row.next(),
                who: try row.next(),
                done: try row.next(),
                detail: try row.next()
            )
        }
    }

    /// How many of a replay's deliveries are pending, and how many are dead letters; each count stops at 100,000.
    ///
    /// - Throws: ``PostgresError``
    package static func deliveries(
        _ connection: isolated PostgresConnection,
        of replay: Replay
    ) throws(PostgresError) -> (waiting: Int64, dead: Int64) {
        guard case .handlers(let names, _) = replay.target else { return (0, 0) }
        return try connection.run(ReplayStatements.deliveries(of: replay.id, to: names)).only {
            row throws(PostgresError) in (waiting: try row.next(), dead: try row.next())
        }
    }

    /// Adds an entry to a replay's history.
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
