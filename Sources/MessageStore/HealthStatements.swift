import Postgres

/// What is asked about the server itself.
enum HealthStatements: StatementCatalog {
    /// Whether it takes no writes.
    static let isReadOnly: SQL = "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::bool"

    /// What a commit survives.
    static let durability: SQL = """
        SELECT current_setting('synchronous_standby_names'), (SELECT count(*) FROM pg_stat_replication),
            current_setting('fsync')::bool, current_setting('full_page_writes')::bool
        """

    package static var samples: [StatementSample] {
        [StatementSample("isReadOnly", isReadOnly), StatementSample("durability", durability)]
    }
}
