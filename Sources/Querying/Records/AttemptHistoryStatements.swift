import Postgres
import Vocabulary

enum AttemptHistoryStatements {
    static func history(of key: Digest128) -> SQL {
        """
        SELECT handler, attempt, started_at, duration, outcome, status, error_group, worker
        FROM upstream.attempts_of(\(key)) ORDER BY started_at, handler, attempt
        """
    }
}
