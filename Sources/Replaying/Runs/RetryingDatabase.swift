import Logging
import Postgres
import Telemetry
import Vocabulary

/// The database as a run uses it: waits while it is unavailable, because every step may be repeated.
struct RetryingDatabase: Sendable {
    let client: PostgresClient
    let progress: ReplayProgress
    let logger: Logger

    private static let pause = Duration.milliseconds(500)

    /// Runs a step until the database has done it.
    ///
    /// - Throws: ``ReplayError`` if the database rejects the step; `CancellationError`.
    func run<T: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) throws(PostgresError) -> T
    ) async throws -> T {
        while true {
            do throws(PostgresError) {
                return try await client.run(body)
            } catch {
                try Task.checkCancellation()
                guard error.maySucceedLater, error.failureClass != .schema, error.failureClass != .permission else {
                    throw ReplayError(.invalid, "the database rejects a step of the replay: \(error)")
                }
                progress.set { $0.waiting = "waiting for the database" }
                logger.event(
                    .warning,
                    .databaseUnavailable,
                    "a replay waits for the database",
                    [.error: .string(error.description)]
                )
            }
            try await Task.sleep(for: Self.pause)
        }
    }
}
