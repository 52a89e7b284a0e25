import Foundation
import MessageStore
import Postgres
import Vocabulary

/// The right to run a replay: one process at a time has it.
///
/// Its token grows with each take-over. Every step that a runner makes in the database names the token it holds, so one
/// that was stopped for a while, and whose lease another has taken since, changes nothing any more.
struct ReplayLease: Sendable {
    /// The replay.
    let replay: String
    /// Who holds it.
    let owner: String
    /// The fencing token.
    let token: Int64
    /// How long it holds unless it is renewed, in microseconds.
    let length: Int64

    /// What a step found.
    enum Standing: Sendable, Equatable {
        /// The replay runs, and this lease holds.
        case held
        /// A person paused, cancelled or restarted it, or it has ended.
        case stopped(ReplayState)
        /// Another runner has taken it.
        case lost
    }

    /// Where the run is.
    struct Position: Sendable, Equatable {
        var done: Int64
        var skipped: Int64
        var bytes: Int64
    }

    /// What taking a lease came to.
    enum Taking: Sendable {
        /// It is ours.
        case taken(ReplayLease, Position)
        /// Another holds it, until then unless it renews it.
        case held(by: String, until: Int64)
        /// The replay is not to be run.
        case stopped(ReplayState)
    }

    /// Takes the lease of a replay that runs and that nobody holds.
    static func take(
        _ connection: isolated PostgresConnection,
        _ replay: String,
        owner: String,
        length: Duration
    ) throws(PostgresError) -> Taking {
        try connection.transaction { connection throws(PostgresError) in
            var parameters = PostgresParameters()
            parameters.append(replay)
            parameters.append(owner)
            parameters.append(length.microseconds)
            let result = try connection.query(
                """
                UPDATE upstream.replays
                SET lease_owner = $2, lease_token = lease_token + 1,
                    lease_until = now() + $3 * interval '1 microsecond'
                WHERE replay_id = $1::text::uuid AND state = 'running'
                    AND (lease_until IS NULL OR lease_until <= now())
                RETURNING lease_token, done, skipped, bytes
                """,
                parameters
            )
            guard result.count == 1 else { return try refusal(connection, replay) }
            try ReplayTable.note(connection, replay, "taken", who: owner, detail: nil)
            let lease = ReplayLease(
                replay: replay,
                owner: owner,
                token: result.integer(0, 0) ?? 0,
                length: length.microseconds
            )
            return .taken(
                lease,
                Position(
                    done: result.integer(0, 1) ?? 0,
                    skipped: result.integer(0, 2) ?? 0,
                    bytes: result.integer(0, 3) ?? 0
                )
            )
        }
    }

    private static func refusal(
        _ connection: isolated PostgresConnection,
        _ replay: String
    ) throws(PostgresError) -> Taking {
        var parameters = PostgresParameters()
        parameters.append(replay)
        let result = try connection.query(
            "SELECT state, lease_owner, lease_until FROM upstream.replays WHERE replay_id = $1::text::uuid",
            parameters
        )
        guard result.count == 1, let state = result.text(0, 0).flatMap(ReplayState.init) else {
            return .stopped(.cancelled)
        }
        guard state == .running else { return .stopped(state) }
        return .held(by: result.text(0, 1) ?? "another process", until: result.timestamp(0, 2) ?? 0)
    }

    /// The first two parameters of every fenced statement.
    var parameters: PostgresParameters {
        var parameters = PostgresParameters()
        parameters.append(replay)
        parameters.append(token)
        return parameters
    }

    /// What fences a statement off from runners that hold it no more.
    static let fence = "replay_id = $1::text::uuid AND lease_token = $2"

    /// Renews the lease, with the position where it has changed.
    ///
    /// A position is taken in any state that a person may have brought about meanwhile, so that a pause loses nothing of
    /// what was sent before it was noticed.
    func renew(
        _ connection: isolated PostgresConnection,
        _ position: Position?
    ) throws(PostgresError) -> Standing {
        var parameters = parameters
        parameters.append(length)
        if let position {
            parameters.append(position.done)
            parameters.append(position.skipped)
            parameters.append(position.bytes)
        }
        let result = try connection.query(
            """
            UPDATE upstream.replays SET lease_until = now() + $3 * interval '1 microsecond'
                \(position == nil ? "" : ", done = greatest(done, $4), skipped = greatest(skipped, $5), bytes = $6")
            WHERE \(Self.fence) AND state IN ('running', 'paused')
            RETURNING state
            """,
            parameters
        )
        guard result.count == 1, let state = result.text(0, 0).flatMap(ReplayState.init) else {
            return try standing(connection)
        }
        return state == .running ? .held : .stopped(state)
    }

    /// Which files are the replay's.
    func outputMark(_ connection: isolated PostgresConnection) throws(PostgresError) -> OutputMark {
        let result = try connection.query("SELECT file FROM upstream.replays WHERE \(Self.fence)", parameters)
        return OutputMark(result.count == 1 ? result.text(0, 0) : nil)
    }

    /// Writes down which files are the replay's; what is written under a lease that was lost is never gone on with.
    func note(_ connection: isolated PostgresConnection, _ mark: OutputMark) throws(PostgresError) {
        var parameters = parameters
        parameters.append(mark.text)
        _ = try connection.query("UPDATE upstream.replays SET file = $3 WHERE \(Self.fence)", parameters)
    }

    /// Why a fenced statement met no row.
    func standing(_ connection: isolated PostgresConnection) throws(PostgresError) -> Standing {
        var parameters = PostgresParameters()
        parameters.append(replay)
        let result = try connection.query(
            "SELECT state, lease_token FROM upstream.replays WHERE replay_id = $1::text::uuid",
            parameters
        )
        guard result.count == 1, let state = result.text(0, 0).flatMap(ReplayState.init) else {
            return .stopped(.cancelled)
        }
        return result.integer(0, 1) == token && state != .running ? .stopped(state) : .lost
    }

    /// Gives the lease back; the replay's state stays, so that another may go on.
    func release(_ connection: isolated PostgresConnection) throws(PostgresError) {
        _ = try connection.query(
            "UPDATE upstream.replays SET lease_owner = NULL, lease_until = NULL WHERE \(Self.fence)",
            parameters
        )
    }

    /// Ends the run, if everything is done or an error says so.
    ///
    /// - Returns: Whether the lease still held.
    func end(
        _ connection: isolated PostgresConnection,
        error: String?
    ) throws(PostgresError) -> Bool {
        try connection.transaction { connection throws(PostgresError) in
            var parameters = parameters
            parameters.append(optional: error)
            let result = try connection.query(
                """
                UPDATE upstream.replays
                SET state = CASE WHEN $3::text IS NULL THEN 'finished' ELSE 'failed' END, finished_at = now(),
                    last_error = $3, lease_owner = NULL, lease_until = NULL
                WHERE \(Self.fence) AND state = 'running' AND ($3::text IS NOT NULL OR done = planned)
                RETURNING 1
                """,
                parameters
            )
            guard result.count == 1 else { return false }
            try ReplayTable.note(connection, replay, error == nil ? "finished" : "failed", who: owner, detail: error)
            return true
        }
    }
}
