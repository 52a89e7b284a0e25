import Foundation
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

    /// Decodes JSON of a worker; nothing if another version wrote it differently.
    private static func decoded<Value: Decodable>(_ json: JSONColumn, _ nothing: Value) -> Value {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        return (try? decoder.decode(Value.self, from: Data(json.utf8))) ?? nothing
    }
}
