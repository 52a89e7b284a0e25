package import Postgres
package import Vocabulary

/// A row of `upstream.workers`.
package struct WorkerRow: Sendable, Equatable {
    /// Host and process id.
    package var worker: String
    package var version: String
    /// The process's roles: `receive`, `dispatch`, or both.
    package var roles: [String]
    /// When it started, by the database's clock.
    package var startedAt: Timestamp
    /// When it wrote the row.
    package var heartbeatAt: Timestamp
    /// Whether that was less than 20 s ago by the database's clock.
    package var isAlive: Bool
    /// Whether it is shutting down.
    package var isStopping: Bool
    /// Copies received and not yet settled.
    package var inFlight: Int
    package var streams: [WorkerReport.Streams]
    /// Its rates between its last two rows.
    package var rates: WorkerReport.Rates
    package var handlers: [WorkerReport.Handler]
    /// The certificates that it has seen.
    package var certificates: [WorkerReport.Certificate]
}

package enum WorkerTable {
    /// How often a worker writes its row.
    package static let interval = Duration.seconds(5)

    /// All known workers, by name: live ones, and those that died within the last ten minutes.
    package static func list(_ connection: isolated PostgresConnection) throws(PostgresError) -> [WorkerRow] {
        try connection.run(WorkerStatements.list).rows {
            WorkerRow(
                worker: $0,
                version: $1,
                roles: $2,
                startedAt: $3,
                heartbeatAt: $4,
                isAlive: $5,
                isStopping: $6,
                inFlight: $7,
                streams: ($8 as JSONColumn).decoded() ?? [],
                rates: ($9 as JSONColumn).decoded() ?? WorkerReport.Rates(),
                handlers: ($10 as JSONColumn).decoded() ?? [],
                certificates: ($11 as JSONColumn).decoded() ?? []
            )
        }
    }
}

package enum WorkerStatements {
    /// Writes a process's row.
    ///
    /// Doesn't wait for the disk or a standby: the next row follows in a few seconds.
    package static let write: PreparedStatement<WorkerReport> = """
        \(quick)
        INSERT INTO upstream.workers (
            instance, worker, version, roles, started_at, heartbeat_at, stopping, in_flight, streams, rates, handlers,
            certificates
        )
        SELECT
            \(\.instance), \(\.worker), \(\.version), \(\.roles), now() - \(\.uptime), now(), \(\.isStopping),
            \(\.inFlight), \(\.streamsJSON)::jsonb, \(\.ratesJSON)::jsonb, \(\.handlersJSON)::jsonb,
            \(\.certificatesJSON)::jsonb
        FROM quick
        ON CONFLICT (instance) DO UPDATE SET
            heartbeat_at = excluded.heartbeat_at, stopping = excluded.stopping, in_flight = excluded.in_flight,
            streams = excluded.streams, rates = excluded.rates, handlers = excluded.handlers,
            certificates = excluded.certificates
        """

    /// Deletes rows of dead processes: silent for ten minutes, or succeeded by this one.
    package static let purge: PreparedStatement<WorkerReport> = """
        \(quick)
        DELETE FROM upstream.workers USING quick
        WHERE heartbeat_at < now() - interval '10 minutes'
            OR worker = \(\.worker) AND instance <> \(\.instance) AND NOT \(raw: isAlive)
        """

    /// Deletes a process's row when it stops in order.
    package static let remove: PreparedStatement<WorkerReport> = """
        \(quick)
        DELETE FROM upstream.workers USING quick WHERE instance = \(\.instance)
        """

    static let list: SQL = """
        SELECT
            worker, version, roles, started_at, heartbeat_at, \(raw: isAlive), stopping, in_flight, streams::json,
            rates::json, handlers::json, certificates::json
        FROM upstream.workers ORDER BY worker, started_at
        """

    private static let quick: PreparedStatement<WorkerReport> =
        "WITH quick AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))"

    /// A condition on `workers` by the database's clock, which allows four missing rows.
    private static let isAlive = "(heartbeat_at > now() - interval '20 seconds')"
}
