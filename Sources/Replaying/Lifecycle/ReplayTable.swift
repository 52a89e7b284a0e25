import Foundation
import MessageStore
package import Postgres
import Querying

/// The tables `replays` and `replay_events`: what people ask for and decide.
package enum ReplayTable {
    /// All replays, the latest first.
    ///
    /// - Throws: ``PostgresError``
    package static func list(
        _ connection: isolated PostgresConnection,
        limit: Int = 100
    ) throws(PostgresError) -> [Replay] {
        var parameters = PostgresParameters()
        parameters.append(Int64(limit))
        let result = try connection.query("\(select) ORDER BY created_at DESC LIMIT $1", parameters)
        return (0..<result.count).compactMap { replay(result, $0) }
    }

    /// The replay of this name, or with this id: the one that has not ended, else the latest.
    ///
    /// - Throws: ``PostgresError``
    package static func find(
        _ connection: isolated PostgresConnection,
        _ name: String
    ) throws(PostgresError) -> Replay? {
        var parameters = PostgresParameters()
        parameters.append(name)
        let result = try connection.query(
            """
            \(select) WHERE name = $1 OR replay_id::text = $1
            ORDER BY state IN ('planned', 'running', 'paused', 'failed') DESC, created_at DESC LIMIT 1
            """,
            parameters
        )
        return result.count == 0 ? nil : replay(result, 0)
    }

    /// Replays to handlers that run and that nobody holds.
    ///
    /// - Throws: ``PostgresError``
    package static func abandoned(_ connection: isolated PostgresConnection) throws(PostgresError) -> [Replay] {
        let result = try connection.query(
            """
            \(select) WHERE state = 'running' AND kind = 'handlers' AND (lease_until IS NULL OR lease_until <= now())
            ORDER BY started_at
            """
        )
        return (0..<result.count).compactMap { replay(result, $0) }
    }

    /// Does what a person decided, if the replay's state allows it.
    ///
    /// - Parameters:
    ///   - event: What was decided.
    ///   - name: The replay's name or id.
    ///   - who: User and host.
    ///   - reason: Why, in the person's words.
    ///   - pace: A new pace, from now on.
    ///   - client: The way to the database.
    /// - Throws: ``ReplayError`` where there is no such replay or its state refuses; ``PostgresError``.
    /// - Returns: The replay as it is now, and what has become of it.
    package static func apply(
        _ event: ReplayEvent,
        to name: String,
        who: String,
        reason: String? = nil,
        pace: ReplayPace? = nil,
        over client: PostgresConnection
    ) async throws -> (replay: Replay, transition: ReplayTransition) {
        let result: Result<(Replay, ReplayTransition), ReplayError> = try await client.run {
            connection throws(PostgresError) in
            try connection.transaction { connection throws(PostgresError) in
                // One decision at a time, so that two replays can't come to one target.
                try connection.script("SELECT pg_advisory_xact_lock(hashtextextended('upstream.replays', 0))")
                guard let replay = try find(connection, name) else {
                    return .failure(ReplayError(.unknown, "there is no replay '\(name)': `replay status` lists them"))
                }
                return try decide(connection, event, replay, who, reason, pace)
            }
        }
        return try result.get()
    }

    private static func decide(
        _ connection: isolated PostgresConnection,
        _ event: ReplayEvent,
        _ replay: Replay,
        _ who: String,
        _ reason: String?,
        _ pace: ReplayPace?
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
        if state == .running, let other = try rival(connection, of: replay) {
            return .failure(
                ReplayError(
                    .refused,
                    "replay '\(other)' is under way to the same target (\(replay.target)): one at a time; "
                        + "wait for its end, or cancel it"
                )
            )
        }
        var parameters = PostgresParameters()
        parameters.append(replay.id)
        parameters.append(state.rawValue)
        parameters.append(transition == .restart)
        parameters.append(try options(replay.target, pace ?? replay.pace))
        // A restart fences whoever still sends from an earlier run; the others stop, or go on, at their next step.
        _ = try connection.query(
            """
            UPDATE upstream.replays SET
                state = $2, options = $4::json, last_error = NULL,
                started_at = CASE WHEN $3 THEN now() ELSE coalesce(started_at, CASE WHEN $2 = 'running' THEN now() END) END,
                finished_at = CASE WHEN $2 = 'cancelled' THEN now() END,
                done = CASE WHEN $3 THEN 0 ELSE done END, skipped = CASE WHEN $3 THEN 0 ELSE skipped END,
                bytes = CASE WHEN $3 THEN 0 ELSE bytes END,
                runs = runs + CASE WHEN $2 = 'running' AND (done = 0 OR $3) THEN 1 ELSE 0 END,
                lease_token = lease_token + CASE WHEN $3 THEN 1 ELSE 0 END,
                lease_until = CASE WHEN $3 THEN NULL ELSE lease_until END
            WHERE replay_id::text = $1
            """,
            parameters
        )
        if state == .cancelled {
            var selection = PostgresParameters()
            selection.append(replay.id)
            _ = try connection.query("DELETE FROM upstream.replay_messages WHERE replay_id = $1::text::uuid", selection)
        }
        try note(connection, replay.id, past(event), who: who, detail: reason)
        guard let now = try find(connection, replay.id) else {
            return .failure(ReplayError(.unknown, "the replay vanished"))
        }
        return .success((now, transition))
    }

    private static func past(_ event: ReplayEvent) -> String {
        switch event {
        case .start: "started"
        case .startAgain: "restarted"
        case .pause: "paused"
        case .resume: "resumed"
        case .cancel: "cancelled"
        case .finish: "finished"
        case .fail: "failed"
        }
    }

    /// The name of another replay that runs or pauses on the way to the same target.
    private static func rival(
        _ connection: isolated PostgresConnection,
        of replay: Replay
    ) throws(PostgresError) -> String? {
        var parameters = PostgresParameters()
        parameters.append(replay.id)
        parameters.append(texts: replay.target.occupies)
        let result = try connection.query(
            """
            SELECT name FROM upstream.replays
            WHERE state IN ('running', 'paused') AND replay_id::text <> $1 AND occupies && $2::text[]
            ORDER BY started_at LIMIT 1
            """,
            parameters
        )
        return result.count == 0 ? nil : result.text(0, 0)
    }

    /// Writes into a replay's history.
    static func note(
        _ connection: isolated PostgresConnection,
        _ id: String,
        _ event: String,
        who: String,
        detail: String?
    ) throws(PostgresError) {
        var parameters = PostgresParameters()
        parameters.append(id)
        parameters.append(event)
        parameters.append(who)
        parameters.append(optional: detail)
        _ = try connection.query(
            """
            INSERT INTO upstream.replay_events (replay_id, event, who, done, detail)
            SELECT replay_id, $2, $3, done, $4 FROM upstream.replays WHERE replay_id = $1::text::uuid
            """,
            parameters
        )
    }

    /// An entry of a replay's history.
    package struct HistoryEntry: Sendable {
        /// When: microseconds since 1970-01-01 UTC.
        package var at: Int64
        /// What happened.
        package var event: String
        /// Who did it.
        package var who: String
        /// How far the replay was.
        package var done: Int64
        /// More about it.
        package var detail: String?
    }

    /// A replay's history, the oldest first.
    ///
    /// - Throws: ``PostgresError``
    package static func history(
        _ connection: isolated PostgresConnection,
        of id: String
    ) throws(PostgresError) -> [HistoryEntry] {
        var parameters = PostgresParameters()
        parameters.append(id)
        let result = try connection.query(
            """
            SELECT at, event, who, done, detail FROM upstream.replay_events
            WHERE replay_id = $1::text::uuid ORDER BY at LIMIT 1000
            """,
            parameters
        )
        return (0..<result.count).map { row in
            HistoryEntry(
                at: result.timestamp(row, 0) ?? 0,
                event: result.text(row, 1) ?? "",
                who: result.text(row, 2) ?? "",
                done: result.integer(row, 3) ?? 0,
                detail: result.text(row, 4)
            )
        }
    }

    /// What became of a replay's deliveries so far: how many wait for their handler, and how many are dead letters.
    ///
    /// Each count stops at 100,000.
    ///
    /// - Throws: ``PostgresError``
    package static func deliveries(
        _ connection: isolated PostgresConnection,
        of replay: Replay
    ) throws(PostgresError) -> (waiting: Int64, dead: Int64) {
        guard case .handlers(let names, _) = replay.target else { return (0, 0) }
        var parameters = PostgresParameters()
        parameters.append(replay.id)
        parameters.append(texts: names)
        let result = try connection.query(
            """
            SELECT
                (SELECT count(*) FROM (
                    SELECT FROM upstream.deliveries WHERE replay_id = $1::text::uuid LIMIT 100000
                ) AS counted),
                (SELECT count(*) FROM (
                    SELECT FROM upstream.dead_letters
                    WHERE handler = ANY ($2::text[]) AND replay_id = $1::text::uuid LIMIT 100000
                ) AS counted)
            """,
            parameters
        )
        return (result.integer(0, 0) ?? 0, result.integer(0, 1) ?? 0)
    }

    // MARK: Rows

    static let select = """
        SELECT
            replay_id::text, name, kind, array_to_json(handlers)::text, only_failed, options::text, state,
            selection::text, reason, created_by, created_at, started_at, finished_at, planned, first_received_at,
            last_received_at, done, skipped, bytes, runs::bigint, lease_owner, lease_until, last_error,
            lease_until > now(), (extract(epoch FROM now() - started_at) * 1e6)::bigint
        FROM upstream.replays
        """

    static func replay(_ result: PostgresResult, _ row: Int) -> Replay? {
        let decoder = JSONDecoder()
        guard let options = try? decoder.decode(ReplayOptions.self, from: Data(result.bytes(row, 5) ?? [])),
            let handlers = try? decoder.decode([String].self, from: Data(result.bytes(row, 3) ?? [])),
            let target = options.target(
                kind: result.text(row, 2) ?? "",
                handlers: handlers,
                onlyFailed: result.bool(row, 4) ?? false
            ), let state = result.text(row, 6).flatMap(ReplayState.init)
        else { return nil }
        let first = result.timestamp(row, 14)
        let last = result.timestamp(row, 15)
        return Replay(
            id: result.text(row, 0) ?? "",
            name: result.text(row, 1) ?? "",
            target: target,
            pace: options.pace,
            state: state,
            selection: result.text(row, 7) ?? "{}",
            reason: result.text(row, 8),
            createdBy: result.text(row, 9) ?? "",
            createdAt: result.timestamp(row, 10) ?? 0,
            startedAt: result.timestamp(row, 11),
            finishedAt: result.timestamp(row, 12),
            planned: result.integer(row, 13) ?? 0,
            span: first.flatMap { first in last.map { min(first, $0)...max(first, $0) } },
            done: result.integer(row, 16) ?? 0,
            skipped: result.integer(row, 17) ?? 0,
            bytes: result.integer(row, 18) ?? 0,
            runs: result.integer(row, 19) ?? 0,
            owner: result.text(row, 20),
            leaseUntil: result.timestamp(row, 21),
            isHeld: result.bool(row, 23) ?? false,
            elapsed: result.integer(row, 24),
            lastError: result.text(row, 22)
        )
    }

    static func options(_ target: ReplayTarget, _ pace: ReplayPace) throws(PostgresError) -> String {
        do {
            return String(decoding: try JSONEncoder().encode(ReplayOptions(target, pace)), as: UTF8.self)
        } catch {
            throw PostgresError(.other, "the replay's options can't be written as JSON")
        }
    }
}
