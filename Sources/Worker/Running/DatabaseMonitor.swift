package import Logging
import MessageStore
package import Postgres
import Synchronization
import Telemetry

/// Watches the database: waits for it at the start, knows its state for `/readyz`, and keeps partitions ahead.
package final class DatabaseMonitor: Sendable {
    /// How often the database is asked.
    private static let interval = Duration.seconds(5)

    private let client: PostgresClient
    private let logger: Logger
    private let known = Mutex(ReadinessCheck.State.notReady("not asked yet"))

    /// A monitor with a connection of its own.
    package init(_ settings: PostgresSettings, logger: Logger) {
        client = PostgresClient(settings)
        self.logger = logger
    }

    /// What was found last.
    package var state: ReadinessCheck.State { known.withLock { $0 } }

    /// Waits until the database takes writes and has our schema.
    ///
    /// - Throws: ``WorkerError/schema(_:)`` where the schema is missing or another version's; `CancellationError`.
    package func waitUntilReady() async throws {
        while true {
            switch await ask() {
            case .ready:
                await ensurePartitions()
                return
            case .readOnly: break
            case .schema(let state): throw WorkerError.schema(state)
            case nil: break
            }
            try await Task.sleep(for: .milliseconds(500))
        }
    }

    /// Asks again and again until cancelled.
    package func run() async {
        var day = UTCDay.today()
        while (try? await Task.sleep(for: Self.interval)) != nil {
            let health = await ask()
            let today = UTCDay.today()
            if today != day, health == .ready, await ensurePartitions() { day = today }
        }
        await client.close()
    }

    /// Asks the database; nil where it does not answer.
    private func ask() async -> StoreHealth? {
        let state: ReadinessCheck.State
        var health: StoreHealth?
        do {
            let found = try await client.withConnection { try await StoreHealth.check($0) }
            health = found
            switch found {
            case .ready: state = .ready
            case .readOnly: state = .notReady("the database takes no writes")
            case .schema(let schema): state = .notReady(schema.problem ?? "the schema is not this binary's")
            }
        } catch {
            state = .notReady("the database does not answer: \(error)")
        }
        let before = known.withLock { known in
            defer { known = state }
            return known
        }
        if before != state, case .notReady(let reason) = state {
            logger.event(.warning, .databaseUnavailable, "waiting for the database", [.error: .string(reason)])
        }
        return health
    }

    /// Makes the partitions of the days to come.
    @discardableResult
    private func ensurePartitions() async -> Bool {
        do throws(PostgresError) {
            let made = try await client.run { connection throws(PostgresError) in
                try Partitions.ensure(connection, around: .today())
            }
            if made > 0 {
                logger.event(.info, .partitionsCreated, "partitions of messages created", [.count: .int(made)])
            }
            return true
        } catch {
            logger.event(
                .warning,
                .databaseUnavailable,
                "partitions could not be created ahead",
                [.error: .string(error.description)]
            )
            return false
        }
    }
}
