package import Postgres

extension ReplayTable {
    /// Does what a person decided, if the replay's state allows it.
    ///
    /// - Parameters:
    ///   - event: What was decided.
    ///   - nameOrID: The replay's name or id.
    ///   - who: User and host.
    ///   - reason: Why, in the person's words.
    ///   - pace: A new pace, from now on.
    ///   - client: The way to the database.
    /// - Throws: ``ReplayError`` if there is no such replay or its state forbids it; ``PostgresError``.
    /// - Returns: The replay as it is now, and its transition.
    package static func apply(
        _ event: ReplayEvent,
        to nameOrID: String,
        who: String,
        reason: String? = nil,
        pace: ReplayPace? = nil,
        over client: PostgresConnection
    ) async throws -> (replay: Replay, transition: ReplayTransition) {
        let decision = Decision(event: event, who: who, reason: reason, pace: pace)
        let result: Result<(Replay, ReplayTransition), ReplayError> = try await client.run {
            connection throws(PostgresError) in
            try connection.transaction { connection throws(PostgresError) in
                try connection.run(ReplayStatements.lock)
                guard let replay = try find(connection, nameOrID) else {
                    return .failure(ReplayError(.unknown, "no replay '\(nameOrID)': `replay status` lists them"))
                }
                return try decision.apply(to: replay, connection)
            }
        }
        return try result.get()
    }
}

/// What a person decided about a replay.
private struct Decision {
    let event: ReplayEvent
    let who: String
    let reason: String?
    let pace: ReplayPace?

    /// Writes it down if the replay's state, and the other replays, allow it; inside the transaction that holds the lock.
    func apply(
        to replay: Replay,
        _ connection: isolated PostgresConnection
    ) throws(PostgresError) -> Result<(Replay, ReplayTransition), ReplayError> {
        let transition = replay.state.transition(on: event)
        let state: ReplayState
        switch transition {
        case .refuse(let why):
            return .failure(ReplayError(.refused, "replay '\(replay.name)' is \(replay.state.rawValue): \(why)"))
        case .stay: return .success((replay, transition))
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
        try ReplayTable.note(connection, replay.id, event.past, who: who, detail: reason)
        guard let changed = try connection.run(ReplayStatements.find(id: replay.id)).first(Replay.read) ?? nil else {
            return .failure(ReplayError(.unknown, "replay '\(replay.name)' was deleted"))
        }
        return .success((changed, transition))
    }

    /// The name of another replay that runs or pauses on the way to the same target.
    private func rival(of replay: Replay, _ connection: isolated PostgresConnection) throws(PostgresError) -> String? {
        try connection.run(ReplayStatements.rivals(of: replay.id, on: replay.target.occupies)).first {
            row throws(PostgresError) in try row.next()
        }
    }
}

extension ReplayEvent {
    /// What the replay's history calls it.
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
