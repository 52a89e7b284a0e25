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
        return try Decision(event: event, author: author, pace: pace).apply(to: replay, connection)
    }
}

/// A person's decision about a replay.
private struct Decision {
    let event: ReplayEvent
    let author: AuditAuthor
    let pace: ReplayPace?

    /// Applies it, if the replay's state and the other replays allow it; inside the transaction that holds the lock.
    func apply(
        to replay: Replay,
        _ connection: isolated PostgresConnection
    ) throws(PostgresError) -> Result<(replay: Replay, transition: ReplayTransition), ReplayError> {
        let transition = replay.state.transition(on: event)
        let state: ReplayState
        switch transition {
        case .refuse(let why):
            return .failure(ReplayError(.refused, "replay '\(replay.name)' is \(replay.state.rawValue): \(why)"))
        case .stay: return .success((replay: replay, transition: transition))
        case .become(let next): state = next
        case .restart: state = .running
        }
        if state == .running, let rival = try rival(of: replay, connection) {
            return .failure(
                ReplayError(
                    .refused,
                    "replay '\(rival)' is already sending to the same target (\(replay.target)): "
                        + "wait until it ends, or cancel it"
                )
            )
        }
        let options = try ReplayOptions(replay.target, pace ?? replay.pace).column
        try connection.run(
            ReplayStatements.change(replay.id, to: state, isRestart: transition == .restart, options)
        )
        if state == .cancelled { try connection.run(ReplayStatements.deleteSelection(of: replay.id)) }
        try ReplayTable.note(connection, replay.id, event.past, who: author.name, detail: author.reason)
        if let action = event.action {
            let rest = Int(clamping: replay.planned - (transition == .restart ? 0 : replay.done))
            try AuditLog.record(connection, action, replay.auditSubject, count: rest, by: author)
        }
        guard let changed = try connection.run(ReplayStatements.find(id: replay.id)).first(Replay.read) ?? nil else {
            return .failure(ReplayError(.unknown, "replay '\(replay.name)' was deleted"))
        }
        return .success((replay: changed, transition: transition))
    }

    /// The name of another running or paused replay to the same target.
    private func rival(of replay: Replay, _ connection: isolated PostgresConnection) throws(PostgresError) -> String? {
        try connection.run(ReplayStatements.rivals(of: replay.id, on: replay.target.occupies)).first {
            row throws(PostgresError) in try row.next()
        }
    }
}

extension ReplayEvent {
    /// The audit trail's name for it; nil for a runner's events.
    fileprivate var action: AuditAction? {
        switch self {
        case .start: .startReplay
        case .startAgain: .restartReplay
        case .pause: .pauseReplay
        case .resume: .resumeReplay
        case .cancel: .cancelReplay
        case .finish, .fail: nil
        }
    }

    /// The history's name for it.
    fileprivate var past: String {
        switch self {
        case .start: "started"
        case .startAgain: "restarted"
        case .pause: "paused"
        case .resume: "resumed"
        case .cancel: "cancelled"
        case .finish: "finished"
        case .fail: "failed"
        }
    }
}

extension Replay {
    /// The audit trail's name for it.
    fileprivate var auditSubject: String { "replay '\(name)' (\(id)) to \(target)" }
}
