package import Logging
import MessageStore
package import Postgres
import Synchronization
import Telemetry

/// Watches the database: waits for it at startup, knows its state for `/readyz`, and creates partitions ahead.
///
/// Only one task queries the database; others read what it found, so that a database that does not answer blocks nobody.
package final class DatabaseMonitor: Sendable {
    /// How often the database is checked.
    private static let interval = Duration.seconds(5)
    /// How often it is checked until it is ready for the first time.
    private static let firstInterval = Duration.milliseconds(500)
    /// A health check without an answer for this long counts as failed.
    private static let answerTimeout = Duration.seconds(5)

    private struct Known {
        var state = ReadinessCheck.State.notReady("not checked yet")
        /// When the check now under way began.
        var asking: ContinuousClock.Instant?
        /// The outcome for those who wait at startup; nil until it is known.
        var start: Result<Void, WorkerError>?
        var waiters: [UInt64: CheckedContinuation<Void, any Error>] = [:]
        var lastWaiter: UInt64 = 0
    }

    private let client: PostgresClient
    private let logger: Logger
    private let known = Mutex(Known())

    /// A monitor with a connection of its own.
    package init(_ settings: PostgresSettings, logger: Logger) {
        client = PostgresClient(settings)
        self.logger = logger
    }

    /// What the last check found, or that the database does not answer.
    package var state: ReadinessCheck.State {
        known.withLock { known in
            guard let asking = known.asking else { return known.state }
            let silence = ContinuousClock.now - asking
            guard silence > Self.answerTimeout else { return known.state }
            return .notReady("the database has not answered for \(silence.components.seconds) s")
        }
    }

    /// Waits until ``run()`` has found the database writable and its schema current; returns at once afterwards.
    ///
    /// - Throws: ``WorkerError/schema(_:)`` where the schema is missing or another version's; `CancellationError`.
    package func waitUntilReady() async throws {
        let number = known.withLock { known in
            known.lastWaiter += 1
            return known.lastWaiter
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
                let result = known.withLock { known -> Result<Void, any Error>? in
                    if let start = known.start { return start.mapError { $0 } }
                    if Task.isCancelled { return .failure(CancellationError()) }
                    known.waiters[number] = continuation
                    return nil
                }
                if let result { continuation.resume(with: result) }
            }
        } onCancel: {
            let waiter = known.withLock { $0.waiters.removeValue(forKey: number) }
            waiter?.resume(throwing: CancellationError())
        }
    }

    /// Checks the database repeatedly until cancelled.
    package func run() async {
        guard await start() else { return await client.close() }
        var day = UTCDay.today()
        while (try? await Task.sleep(for: Self.interval)) != nil {
            let health = await ask()
            let today = UTCDay.today()
            if today != day, health == .ready, await ensurePartitions() { day = today }
        }
        await client.close()
    }

    /// Checks until the database is ready (true) or its schema is wrong (false).
    private func start() async -> Bool {
        while !Task.isCancelled {
            switch await ask() {
            case .ready:
                await ensurePartitions()
                begin(.success(()))
                return true
            case .schema(let state):
                begin(.failure(.schema(state)))
                return false
            case .readOnly, nil: break
            }
            try? await Task.sleep(for: Self.firstInterval)
        }
        return false
    }

    private func begin(_ result: Result<Void, WorkerError>) {
        let waiters = known.withLock { known in
            known.start = result
            defer { known.waiters = [:] }
            return known.waiters.values
        }
        for waiter in waiters { waiter.resume(with: result.mapError { $0 }) }
    }

    /// Checks the database; nil where it does not answer.
    private func ask() async -> StoreHealth? {
        known.withLock { $0.asking = .now }
        let state: ReadinessCheck.State
        var health: StoreHealth?
        do {
            let found = try await client.withConnection { try await StoreHealth.check($0) }
            health = found
            switch found {
            case .ready: state = .ready
            case .readOnly: state = .notReady("the database is read-only")
            case .schema(let schema): state = .notReady(schema.problem ?? "the schema is not this binary's")
            }
        } catch {
            // Cancelled: says nothing about the database.
            if Task.isCancelled { return nil }
            state = .notReady("the database does not answer: \(error)")
        }
        let before = known.withLock { known in
            defer { (known.state, known.asking) = (state, nil) }
            return known.state
        }
        if before != state, case .notReady(let reason) = state {
            logger.event(.warning, .databaseUnavailable, "database not ready; retrying", [.error: .string(reason)])
        }
        return health
    }

    /// Creates the partitions of the coming days.
    @discardableResult
    private func ensurePartitions() async -> Bool {
        do throws(PostgresError) {
            let (made, isComplete) = try await client.run { connection throws(PostgresError) in
                let made = try Partitions.ensure(connection, around: .today())
                do throws(PostgresError) {
                    return (made, try AttemptDays.ensure(connection, around: .today()) != nil)
                } catch {
                    // A schema from before the history; and without a day of its own nothing of it is lost.
                    guard error.mayBeOfHistory else { throw error }
                    return (made, true)
                }
            }
            if made > 0 {
                logger.event(.info, .partitionsCreated, "partitions of messages created", [.count: .int(made)])
            }
            return isComplete
        } catch {
            logger.event(
                .warning,
                .databaseUnavailable,
                "cannot create partitions for the coming days; retrying",
                [.error: .string(error.description)]
            )
            return false
        }
    }
}
