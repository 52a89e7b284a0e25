import Postgres

enum ReplayActionStatements {
    /// Counts the replays to handlers that are planned and never started, up to a limit.
    static func planned(limit: Int) -> SQL {
        """
        SELECT count(*) FROM (
            SELECT FROM upstream.replays WHERE state = 'planned' AND kind = 'handlers' LIMIT \(limit)
        ) AS counted
        """
    }
}
