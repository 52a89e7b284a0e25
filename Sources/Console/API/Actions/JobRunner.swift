import Logging
import Postgres
import ServiceLifecycle
import Synchronization
import Telemetry
import Vocabulary

/// Works on the jobs that run, whoever started them: also those of a console that is gone.
///
/// All that it knows stands in the tables, and each step is a transaction: it may be killed at any moment, and several may
/// run.
struct JobRunner: Service {
    let services: ConsoleServices
    let bell: JobBell

    /// How often it looks for jobs that another console left.
    private static let interval = Duration.seconds(2)
    /// How often it deletes what has expired.
    private static let sweepInterval = Duration.seconds(60)

    func run() async throws {
        await cancelWhenGracefulShutdown { await work() }
    }

    private func work() async {
        var isWarned = false
        var swept = ContinuousClock.now - Self.sweepInterval
        while !Task.isCancelled {
            let rings = bell.rings
            do throws(PostgresError) {
                while try await step(), !Task.isCancelled {}
                if ContinuousClock.now - swept >= Self.sweepInterval {
                    try await sweep()
                    swept = .now
                }
                isWarned = false
            } catch {
                if !isWarned, !Task.isCancelled {
                    services.logger.event(
                        .warning,
                        .databaseUnavailable,
                        "cannot work on jobs; retrying",
                        [.error: .string(error.description)]
                    )
                }
                isWarned = true
            }
            await bell.wait(after: rings, atMost: Self.interval)
        }
    }

    /// One chunk of each running job, in turn.
    ///
    /// - Returns: Whether there was anything to do.
    private func step() async throws(PostgresError) -> Bool {
        let jobs = try await services.writer.run { connection throws(PostgresError) in
            try connection.run(JobStatements.running).map { row throws(PostgresError) in try row.next(Digest128.self) }
        }
        var isBusy = false
        for job in jobs where !Task.isCancelled {
            do throws(PostgresError) {
                let acted = try await services.writer.run { connection throws(PostgresError) in
                    try Jobs.step(connection, job)
                }
                if acted { isBusy = true }
            } catch {
                // A deadlock, a lock, an outage: the same chunk again, at the next look.
                guard !error.isEnvironment || error.failureClass == .permission else { throw error }
                try await services.writer.run { connection throws(PostgresError) in
                    try Jobs.fail(connection, job, error.description)
                }
            }
        }
        return isBusy
    }

    private func sweep() async throws(PostgresError) {
        try await services.writer.run { connection throws(PostgresError) in
            while try connection.run(JobStatements.sweep(limit: 20)).affectedRows == 20 {}
            while try connection.run(IdempotencyStatements.sweep(limit: 1_000)).affectedRows == 1_000 {}
        }
    }
}

/// Wakes the runner when a job is started.
final class JobBell: Sendable {
    private let count = Mutex(0)

    /// How often it has rung.
    var rings: Int { count.withLock { $0 } }

    /// Rings.
    func ring() { count.withLock { $0 += 1 } }

    /// Waits until it has rung since, or for a while; ends at once when the task is cancelled.
    func wait(after rings: Int, atMost limit: Duration) async {
        let end = ContinuousClock.now + limit
        while self.rings == rings, ContinuousClock.now < end, !Task.isCancelled {
            try? await Task.sleep(for: .milliseconds(100))
        }
    }
}
