package import MessageStore
package import Postgres

extension ReplayTable {
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
        guard let replay = try find(connection, nameOrID) else {
            return .failure(ReplayError(.unknown, "no replay '\(nameOrID)': `replay status` lists them"))
        }
        let transition = replay.state.transition(on: event)
        let state: ReplayState
        switch transition {
        case .refuse(let why):
            return .failure(ReplayError(.refused, "replay '\(replay.name)' is \(replay.state.rawValue): \(why)"))
        case .stay: return .success((replay: replay, transition: transition))
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
        try note(connection, replay.id, event.names.past, who: author.name, detail: author.reason)
        let rest = Int(clamping: replay.planned - (transition == .restart ? 0 : replay.done))
        let subject = "replay '\(replay.name)' (\(replay.id)) to \(replay.target)"
        try AuditLog.record(connection, event.names.action, subject, count: rest, by: author)
        guard let changed = try connection.run(ReplayStatements.find(id: replay.id)).first(Replay.read) ?? nil else {
            return .failure(ReplayError(.unknown, "replay '\(replay.name)' was deleted"))
        }
        return .success((replay: changed, transition: transition))
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
