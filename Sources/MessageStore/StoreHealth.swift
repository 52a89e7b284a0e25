package import Postgres
package import Vocabulary

/// Whether the store can accept messages (`/readyz`, `check --connect`).
package enum StoreHealth: Sendable, Equatable {
    /// It can.
    case ready
    /// A standby, or a server in read-only mode.
    case readOnly
    /// The schema is not this binary's.
    case schema(SchemaState)

    /// Checks the database; `clock` learns the time of a server that takes writes.
    ///
    /// - Throws: ``MigrationError`` with the database's failure.
    package static func check(
        _ connection: PostgresConnection,
        clock: DatabaseClock? = nil
    ) async throws(MigrationError) -> StoreHealth {
        let state = try await Migrator().state(connection)
        guard state == .current else { return .schema(state) }
        let isReadOnly = try await MigrationError.catching(over: connection) { connection throws(PostgresError) in
            let isReadOnly = try connection.run(HealthStatements.isReadOnly).value(Bool.self)
            if !isReadOnly { try clock?.look(connection) }
            return isReadOnly
        }
        guard isReadOnly else { return .ready }
        // The next session looks for the server that takes writes; this one, through a pooler, might stay here for ever.
        if connection.settings.isWriter { await connection.close() }
        return .readOnly
    }
}

extension DatabaseClock {
    /// Reads the server's clock.
    func look(_ connection: isolated PostgresConnection) throws(PostgresError) {
        let asked = ClockReading.Moment.now
        let time = try connection.databaseTime()
        learn(ClockReading(asked: asked, database: time))
    }
}

/// The store's upkeep: partitions ahead of the messages, and retention behind them (`/metrics`).
package struct StoreUpkeep: Sendable, Equatable {
    /// The days after today (UTC, by the database's clock) with a partition, up to the first without.
    package var daysAhead: Int
    /// When the last complete run of retention began; nil if there was none.
    package var lastRetention: Timestamp?
    /// The expired partitions that it kept for their deliveries.
    package var heldPartitions: Int
    /// The age in transactions of the server's oldest transaction id or multixact id.
    package var transactionAge: Int64
    /// The most write-ahead log that a replication slot retains, in bytes; 0 without slots.
    package var slotBytes: Int64
    /// Its share of `max_slot_wal_keep_size`; 1 once a slot has lost some, and nil without a limit.
    package var slotShare: Double?

    /// Reads the catalog and a row of `retention_runs`.
    package static func look(_ connection: PostgresConnection) async throws(PostgresError) -> StoreUpkeep {
        try await connection.result(of: HealthStatements.upkeep).onlyRow(StoreUpkeep.init)
    }
}

enum HealthStatements {
    /// Whether the server takes no writes.
    static let isReadOnly: SQL = "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::bool"

    /// The settings that decide what a commit survives.
    static let durability: SQL = """
        SELECT current_setting('synchronous_standby_names'), (SELECT count(*) FROM pg_stat_replication),
            current_setting('fsync')::bool, current_setting('full_page_writes')::bool,
            -- What a session begins with: ours ask for another.
            (SELECT reset_val FROM pg_settings WHERE name = 'client_min_messages')
        """

    /// The server's upkeep.
    ///
    /// How many days after today have a partition without a gap; when the last complete run of retention began, and how
    /// many expired partitions it had to keep; the age of the oldest transaction id; what a replication slot keeps.
    static let upkeep: SQL = """
        WITH covered AS MATERIALIZED (SELECT since, until FROM upstream.partitions() WHERE NOT is_detaching),
        days AS (
            SELECT
                number,
                ((now() AT TIME ZONE 'UTC')::date + number)::timestamp AT TIME ZONE 'UTC' AS since,
                ((now() AT TIME ZONE 'UTC')::date + number + 1)::timestamp AT TIME ZONE 'UTC' AS until
            FROM generate_series(1, 400) AS number
        )
        SELECT
            (
                SELECT coalesce(min(number), 401) - 1 FROM days WHERE NOT EXISTS (
                    SELECT FROM covered WHERE covered.since <= days.since AND covered.until >= days.until
                )
            )::int8,
            run.started_at, coalesce(run.partitions_held, 0)::int8,
            (SELECT max(greatest(age(datfrozenxid), mxid_age(datminmxid))) FROM pg_database)::int8,
            slot.bytes, CASE WHEN slot.is_lost THEN 1 ELSE slot.bytes / slot.most END::float8
        FROM (
            SELECT
                coalesce(max(CASE WHEN NOT pg_is_in_recovery()
                    THEN pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn) END), 0)::int8 AS bytes,
                bool_or(wal_status = 'lost') AS is_lost,
                nullif(pg_size_bytes(current_setting('max_slot_wal_keep_size')), -1)::float8 AS most
            FROM pg_replication_slots
        ) AS slot LEFT JOIN (
            SELECT started_at, partitions_held FROM upstream.retention_runs WHERE started_at <= now()
            ORDER BY started_at DESC LIMIT 1
        ) AS run ON true
        """
}
