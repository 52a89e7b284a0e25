package import MessageStore
package import Postgres
package import Vocabulary

package enum ReplayTable {
    package static func list(_ connection: isolated PostgresConnection, limit: Int) throws(PostgresError) -> [Replay] {
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

    /// A replay's history, and its pending deliveries and dead letters; each count stops at 100,000.
    package static func details(
        _ connection: isolated PostgresConnection,
        of replay: Replay
    ) throws(PostgresError) -> (history: [HistoryEntry], waiting: Int64, dead: Int64) {
        let history = try connection.run(ReplayStatements.history(of: replay.id)).rows(HistoryEntry.init)
        guard case .handlers(let names, _) = replay.target else { return (history, 0, 0) }
        let counts = ReplayStatements.deliveries(of: replay.id, to: names)
        return try connection.run(counts).onlyRow { (history, $0, $1) }
    }

    /// Applies a person's decision inside a transaction, if the replay's state allows it; `pace` applies from now on.
    ///
    /// - Returns: The replay as it is now, and its transition; a ``ReplayError`` means that nothing was written.
    package static func apply(
        _ connection: isolated PostgresConnection,
        _ event: ReplayEvent,
        to nameOrID: String,
        by author: AuditAuthor,
        pace: ReplayPace? = nil
    ) throws(PostgresError) -> Result<(replay: Replay, transition: ReplayTransition), ReplayError> {
        try connection.run(ReplayStatements.lock)
        guard let replay = try connection.run(ReplayStatements.findLocked(nameOrID)).first(Replay.read) ?? nil else {
            return .failure(ReplayError(.unknown, "no replay '\(nameOrID)': `replay status` lists them"))
        }
        let transition = replay.state.transition(on: event)
        let state: ReplayState
        switch transition {
        case .refuse(let why):
            return .failure(ReplayError(.refused, "replay '\(replay.name)' is \(replay.state.rawValue): \(why)"))
        case .stay:
            guard replay.state == .running, let pace, pace != replay.pace else {
                return .success((replay: replay, transition: transition))
            }
            return try change(connection, pace, of: replay).map { (replay: $0, transition: transition) }
        case .become(let next): state = next
        case .restart: state = .running
        }
        let rivals = ReplayStatements.rivals(of: replay.id, on: replay.target.occupies)
        if state == .running, let rival = try connection.run(rivals).rows(as: String.self).first {
            return .failure(
                ReplayError(
                    .refused,
                    "replay '\(rival)' is already sending to the same target (\(replay.target)): "
                        + "wait until it ends, or cancel it"
                )
            )
        }
        let options = try ReplayOptions(replay.target, pace ?? replay.pace).column
        try connection.run(ReplayStatements.change(replay.id, to: state, isRestart: transition == .restart, options))
        if state == .cancelled { try connection.run(ReplayStatements.deleteSelection(of: replay.id)) }
        let note = ReplayStatements.note(replay.id, event.names.past, who: author.name, detail: author.reason)
        try connection.run(note)
        let rest = Int(clamping: replay.planned - (transition == .restart ? 0 : replay.done))
        let subject = "replay '\(replay.name)' (\(replay.id)) to \(replay.target)"
        try AuditLog.record(connection, event.names.action, subject, count: rest, by: author)
        guard let changed = try connection.run(ReplayStatements.find(id: replay.id)).first(Replay.read) ?? nil else {
            return .failure(ReplayError(.unknown, "replay '\(replay.name)' was deleted"))
        }
        return .success((replay: changed, transition: transition))
    }

    /// Sets the pace of a replay that was left running; its runner would not learn of another.
    private static func change(
        _ connection: isolated PostgresConnection,
        _ pace: ReplayPace,
        of replay: Replay
    ) throws(PostgresError) -> Result<Replay, ReplayError> {
        guard !replay.isHeld else {
            let way = "pause it, and resume it at the new pace"
            return .failure(ReplayError(.refused, "replay '\(replay.name)' is running at another pace: \(way)"))
        }
        try connection.run(ReplayStatements.setOptions(replay.id, ReplayOptions(replay.target, pace).column))
        var changed = replay
        changed.pace = pace
        return .success(changed)
    }
}

extension ReplayEvent {
    /// What the audit trail and the replay's history call it.
    fileprivate var names: (action: AuditAction, past: String) {
        switch self {
        case .start: (.startReplay, "started")
        case .startAgain: (.restartReplay, "restarted")
        case .pause: (.pauseReplay, "paused")
        case .resume: (.resumeReplay, "resumed")
        case .cancel: (.cancelReplay, "cancelled")
        }
    }
}
