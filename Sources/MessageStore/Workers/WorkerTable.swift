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
