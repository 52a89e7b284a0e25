package import Postgres
package import Vocabulary

/// A row of `upstream.workers`: what a worker last reported, when it started, and when it wrote this.
@dynamicMemberLookup package struct WorkerRow: Sendable, Equatable {
    var report: WorkerReport
    /// When it started, by the database's clock.
    package var startedAt: Timestamp
    /// When it wrote the row.
    package var heartbeatAt: Timestamp
    /// Whether that was less than 20 s ago by the database's clock.
    package var isAlive: Bool

    package subscript<Value>(dynamicMember member: KeyPath<WorkerReport, Value>) -> Value { report[keyPath: member] }
}

package enum WorkerTable {
    /// How often a worker writes its row.
    package static let interval = Duration.seconds(5)

    /// All known workers, by name: live ones, and those that fell silent within the last day, unless dismissed.
    package static func list(_ connection: isolated PostgresConnection) throws(PostgresError) -> [WorkerRow] {
        try connection.run(WorkerStatements.list).rows {
            var report = WorkerReport(instance: $0, worker: $1, version: $2, roles: $3)
            (report.isStopping, report.inFlight) = ($7, $8)
            report.streams = ($9 as JSONColumn).decoded() ?? []
            report.rates = ($10 as JSONColumn).decoded() ?? WorkerReport.Rates()
            report.handlers = ($11 as JSONColumn).decoded() ?? []
            report.certificates = ($12 as JSONColumn).decoded() ?? []
            return WorkerRow(report: report, startedAt: $4, heartbeatAt: $5, isAlive: $6)
        }
    }
}

extension WorkerTable {
    /// Deletes the row of a silent worker, which somebody knows of, inside a transaction with its entry in the audit trail.
    ///
    /// - Returns: Its name; nil if no worker has this instance, or if it is alive.
    package static func dismiss(
        _ connection: isolated PostgresConnection,
        _ instance: Digest128,
        by author: AuditAuthor
    ) throws(PostgresError) -> String? {
        let gone = try connection.run(WorkerStatements.dismiss(instance)).rows(as: String.self).first
        if let gone { try AuditLog.record(connection, .dismissWorker, "worker \(gone)", count: 1, by: author) }
        return gone
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

    /// Deletes rows of dead processes: silent for a day, or succeeded by this one.
    package static let purge: PreparedStatement<WorkerReport> = """
        \(quick)
        DELETE FROM upstream.workers USING quick
        WHERE heartbeat_at < now() - interval '1 day'
            OR worker = \(\.worker) AND instance <> \(\.instance) AND NOT \(raw: isAlive)
        """

    /// Deletes a process's row when it stops in order.
    package static let remove: PreparedStatement<WorkerReport> = """
        \(quick)
        DELETE FROM upstream.workers USING quick WHERE instance = \(\.instance)
        """

    static func dismiss(_ instance: Digest128) -> SQL {
        """
        DELETE FROM upstream.workers WHERE instance = \(instance) AND NOT \(raw: isAlive) RETURNING worker
        """
    }

    static let list: SQL = """
        SELECT
            instance, worker, version, roles, started_at, heartbeat_at, \(raw: isAlive), stopping, in_flight,
            streams::json, rates::json, handlers::json, certificates::json
        FROM upstream.workers ORDER BY worker, started_at
        """

    private static let quick: PreparedStatement<WorkerReport> =
        "WITH quick AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))"

    /// A condition on `workers` by the database's clock, which allows four missing rows; that of a process which died before
    /// the clock was set back is in the future.
    private static let isAlive =
        "(heartbeat_at > now() - interval '20 seconds' AND heartbeat_at < now() + interval '20 seconds')"
}
