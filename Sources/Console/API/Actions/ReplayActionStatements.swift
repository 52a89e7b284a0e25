import Postgres

/// The console's own statements over `replays`.
enum ReplayActionStatements: StatementCatalog {
    /// How many replays to handlers are planned and were never started; the count stops at a limit.
    static func planned(limit: Int) -> SQL {
        """
        SELECT count(*) FROM (
            SELECT FROM upstream.replays WHERE state = 'planned' AND kind = 'handlers' LIMIT \(limit)
        ) AS counted
        """
    }

    static var samples: [StatementSample] { [StatementSample("planned", planned(limit: 1))] }
}
