import Postgres
import Vocabulary

/// The statements over `replays` and `replay_events` for people: plans, decisions, views.
enum ReplayStatements {
    static func list(limit: Int) -> SQL { "\(select) ORDER BY created_at DESC LIMIT \(limit)" }

    /// The replay with this name or id: the unfinished one, else the newest.
    static func find(_ nameOrID: String) -> SQL {
        """
        \(select) WHERE name = \(nameOrID) OR replay_id::text = \(nameOrID)
        ORDER BY state IN ('planned', 'running', 'paused', 'failed') DESC, created_at DESC LIMIT 1
        """
    }

    /// The same, locked: its runner does not end it meanwhile.
    static func findLocked(_ nameOrID: String) -> SQL { "\(find(nameOrID)) FOR NO KEY UPDATE" }

    static func find(id: Digest128) -> SQL { "\(select) WHERE replay_id = \(id)" }

    static let abandoned: SQL = """
        \(select) WHERE state = 'running' AND kind = 'handlers' AND (lease_until IS NULL OR lease_until <= now())
        ORDER BY started_at
        """

    /// Waits for concurrent decisions to commit, so that no two replays get the same target.
    static let lock: SQL = "SELECT pg_advisory_xact_lock(hashtextextended('upstream.replays', 0))"

    /// The names of other running or paused replays to one of these targets.
    static func rivals(of id: Digest128, on targets: [String]) -> SQL {
        """
        SELECT name FROM upstream.replays
        WHERE state IN ('running', 'paused') AND replay_id <> \(id) AND occupies && \(targets)
        ORDER BY started_at LIMIT 1
        """
    }

    /// Changes a replay's state.
    ///
    /// A restart also fences off runners of earlier runs; other runners follow at their next step.
    static func change(_ id: Digest128, to state: ReplayState, isRestart: Bool, _ options: JSONColumn) -> SQL {
        let isRunning = state == .running
        let isCancelled = state == .cancelled
        return """
            UPDATE upstream.replays SET
                state = \(state.rawValue), options = \(options), last_error = NULL,
                started_at = CASE
                    WHEN \(isRestart) THEN now() ELSE coalesce(started_at, CASE WHEN \(isRunning) THEN now() END)
                END,
                finished_at = CASE WHEN \(isCancelled) THEN now() END,
                done = CASE WHEN \(isRestart) THEN 0 ELSE done END,
                skipped = CASE WHEN \(isRestart) THEN 0 ELSE skipped END,
                bytes = CASE WHEN \(isRestart) THEN 0 ELSE bytes END,
                runs = runs + CASE WHEN \(isRunning) AND (done = 0 OR \(isRestart)) THEN 1 ELSE 0 END,
                lease_token = lease_token + CASE WHEN \(isRestart) THEN 1 ELSE 0 END,
                lease_until = CASE WHEN \(isRestart) THEN NULL ELSE lease_until END
            WHERE replay_id = \(id)
            """
    }

    static func setOptions(_ id: Digest128, _ options: JSONColumn) -> SQL {
        "UPDATE upstream.replays SET options = \(options) WHERE replay_id = \(id)"
    }

    /// Deletes the part of a replay's frozen selection that was not sent; the rest tells later plans what was.
    static func deleteSelection(of id: Digest128) -> SQL {
        """
        DELETE FROM upstream.replay_messages AS r USING upstream.replays AS p
        WHERE r.replay_id = \(id) AND p.replay_id = r.replay_id
            AND r.chunk::int8 * \(ReplayPlanner.chunkSize) >= p.done
        """
    }

    static func note(_ id: Digest128, _ event: String, who: String, detail: String?) -> SQL {
        """
        INSERT INTO upstream.replay_events (replay_id, event, who, done, detail)
        SELECT replay_id, \(event), \(who), done, \(detail) FROM upstream.replays WHERE replay_id = \(id)
        """
    }

    static func history(of id: Digest128) -> SQL {
        "SELECT at, event, who, done, detail FROM upstream.replay_events WHERE replay_id = \(id) ORDER BY at LIMIT 1000"
    }

    /// Counts a replay's pending deliveries, and its dead letters; each count stops at 100,000.
    static func deliveries(of id: Digest128, to handlers: [String]) -> SQL {
        """
        SELECT
            (SELECT count(*) FROM (
                SELECT FROM upstream.deliveries WHERE replay_id = \(id) LIMIT 100000
            ) AS counted) + (
                SELECT coalesce(sum(cardinality(keys)), 0) FROM upstream.delivery_blocks WHERE replay_id = \(id)
            )::int8,
            (SELECT count(*) FROM (
                SELECT FROM upstream.dead_letters WHERE handler = ANY (\(handlers)) AND replay_id = \(id) LIMIT 100000
            ) AS counted)
        """
    }

    /// The columns that ``Replay/read(_:)`` takes.
    private static let select: SQL = """
        SELECT
            kind, handlers, only_failed, options, state, replay_id, name, selection, reason, created_by, created_at,
            started_at, finished_at, planned, first_received_at, last_received_at, done, skipped, bytes, runs,
            lease_owner, lease_until, coalesce(lease_until > now(), false),
            (extract(epoch FROM now() - started_at) * 1e6)::bigint, last_error
        FROM upstream.replays
        """
}
