import Postgres
import Vocabulary

/// The statements that take and renew a replay's lease, and those that only its holder may run.
enum LeaseStatements {
    /// Takes the lease of a running replay that no process holds.
    static func take(_ replay: Digest128, owner: String, length: Duration) -> SQL {
        """
        UPDATE upstream.replays
        SET lease_owner = \(owner), lease_token = lease_token + 1, lease_until = \(end(of: length))
        WHERE replay_id = \(replay) AND state = 'running' AND (lease_until IS NULL OR lease_until <= now())
        RETURNING lease_token, done, skipped, bytes
        """
    }

    static func holder(of replay: Digest128) -> SQL {
        "SELECT state, lease_token, lease_owner, lease_until FROM upstream.replays WHERE replay_id = \(replay)"
    }

    static func renew(_ lease: ReplayLease, _ position: ReplayLease.Position?) -> SQL {
        let change: SQL =
            position.map { position in
                """
                , done = greatest(done, \(position.done)), skipped = greatest(skipped, \(position.skipped)),
                    bytes = \(position.bytes)
                """
            } ?? ""
        return """
            UPDATE upstream.replays SET lease_until = \(end(of: lease.length))\(change)
            WHERE \(holds(lease)) AND state IN ('running', 'paused')
            RETURNING state
            """
    }

    static func files(_ lease: ReplayLease) -> SQL { "SELECT file FROM upstream.replays WHERE \(holds(lease))" }

    static func setFiles(_ lease: ReplayLease, _ files: String) -> SQL {
        "UPDATE upstream.replays SET file = \(files) WHERE \(holds(lease))"
    }

    static func release(_ lease: ReplayLease) -> SQL {
        "UPDATE upstream.replays SET lease_owner = NULL, lease_until = NULL WHERE \(holds(lease))"
    }

    /// Ends the run: as finished if everything is done, or as failed with an error.
    static func end(_ lease: ReplayLease, error: String?) -> SQL {
        """
        UPDATE upstream.replays
        SET state = CASE WHEN \(error) IS NULL THEN 'finished' ELSE 'failed' END, finished_at = now(),
            last_error = \(error), lease_owner = NULL, lease_until = NULL
        WHERE \(holds(lease)) AND state = 'running' AND (\(error) IS NOT NULL OR done = planned)
        RETURNING replay_id
        """
    }

    static func progress(_ lease: ReplayLease) -> SQL {
        "SELECT done, skipped FROM upstream.replays WHERE \(holds(lease)) AND state = 'running'"
    }

    /// Fences off runners that no longer hold the lease.
    private static func holds(_ lease: ReplayLease) -> SQL {
        "replay_id = \(lease.replay) AND lease_token = \(lease.token)"
    }

    private static func end(of length: Duration) -> SQL {
        "now() + \(length.microseconds) * interval '1 microsecond'"
    }
}
