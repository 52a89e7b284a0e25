import Postgres

enum CompareStatements {
    /// The size of the history of attempts with its indexes, in bytes.
    static let historySize: SQL =
        "SELECT sum(pg_total_relation_size(relation))::int8 FROM upstream.attempt_partitions()"

    /// The number of rows that each transaction of the bare worker inserted.
    static let bareBatchSizes: SQL = "SELECT count(*) FROM baseline GROUP BY xmin::text"
}
