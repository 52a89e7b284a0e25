import Foundation
package import Postgres
package import Vocabulary

/// A row of `upstream.workers`.
package struct WorkerRow: Sendable, Equatable {
    /// Host and process id.
    package var worker: String
    /// The binary's version.
    package var version: String
    /// What the process does: `receive`, `dispatch`, or both.
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
    /// By sender.
    package var streams: [WorkerReport.Streams]
    /// What it did between its last two rows.
    package var rates: WorkerReport.Rates
    /// Its handlers.
    package var handlers: [WorkerReport.Handler]
    /// The certificates that it has seen.
    package var certificates: [WorkerReport.Certificate]
}

/// The table `upstream.workers`: what runs now.
package enum WorkerTable {
    /// How often a worker writes its row.
    package static let interval = Duration.seconds(5)

    /// Every worker that is known, by name: those that are alive, and those that died within the last ten minutes.
    ///
    /// - Parameter connection: A session that may read the table; one statement.
    /// - Throws: ``PostgresError``; `42P01` where the schema is from before the table.
    /// - Returns: A row for each process.
    package static func list(_ connection: isolated PostgresConnection) throws(PostgresError) -> [WorkerRow] {
        try connection.run(WorkerStatements.list).map { row throws(PostgresError) in
            WorkerRow(
                worker: try row.next(),
                version: try row.next(),
                roles: try row.next(),
                startedAt: try row.next(),
                heartbeatAt: try row.next(),
                isAlive: try row.next(),
                isStopping: try row.next(),
                inFlight: try row.next(),
                streams: try decoded(row.next(), []),
                rates: try decoded(row.next(), WorkerReport.Rates()),
                handlers: try decoded(row.next(), []),
                certificates: try decoded(row.next(), [])
            )
        }
    }

    /// Writes a process's row.
    ///
    /// - Throws: ``PostgresError``
    package static func write(
        _ report: WorkerReport,
        _ connection: isolated PostgresConnection
    ) throws(PostgresError) {
        try connection.run(WorkerStatements.write, report)
    }

    /// Deletes the rows of processes that died ten minutes ago, or whose place this one has taken.
    ///
    /// - Throws: ``PostgresError``
    package static func purge(
        for report: WorkerReport,
        _ connection: isolated PostgresConnection
    ) throws(PostgresError) {
        try connection.run(WorkerStatements.purge, report)
    }

    /// Deletes a process's row, as it stops in order.
    ///
    /// - Throws: ``PostgresError``
    package static func remove(
        _ report: WorkerReport,
        _ connection: isolated PostgresConnection
    ) throws(PostgresError) {
        try connection.run(WorkerStatements.remove, report)
    }

    /// What a worker of another version may have written differently reads as nothing.
    private static func decoded<Value: Decodable>(_ json: JSONColumn, _ nothing: Value) -> Value {
        (try? JSONDecoder().decode(Value.self, from: Data(json.utf8))) ?? nothing
    }
}
