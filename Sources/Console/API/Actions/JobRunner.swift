import Logging
import Postgres
import ServiceLifecycle
import Telemetry
import Vocabulary

/// Works on running jobs, also on those started by a console that is gone.
///
/// All state is in the tables and each step is a transaction: it may be killed at any moment, and several may run.
struct JobRunner: Service {
    let services: ConsoleServices

    /// How often it looks for jobs of other consoles.
    private static let interval = Duration.seconds(2)
    /// How long it skips a job that failed with a passing error, so that waits for locks rarely delay other jobs.
    private static let rest = Duration.seconds(5)
    /// How often it deletes expired rows.
    private static let sweepInterval = Duration.seconds(60)

    func run() async throws {
        await cancelWhenGracefulShutdown {
            await withTaskGroup(of: Void.self) { group in
                group.addTask {
                    repeat {
                        services.bell.continuation.yield()
                    } while (try? await Task.sleep(for: Self.interval)) != nil
                }
                group.addTask { await work() }
            }
        }
    }

    private func work() async {
        var isWarned = false
        var swept = ContinuousClock.now - Self.sweepInterval
        var resting: [Digest128: ContinuousClock.Instant] = [:]
        for await _ in services.bell.stream {
            do throws(PostgresError) {
                while try await step(&resting), !Task.isCancelled {}
                if ContinuousClock.now - swept >= Self.sweepInterval {
                    try await sweep()
                    swept = .now
                }
                isWarned = false
            } catch {
                if !isWarned, !Task.isCancelled {
                    warn("cannot work on jobs; retrying", error)
                }
                isWarned = true
            }
        }
    }

    /// Processes one chunk of each running job, in turn.
    ///
    /// - Throws: ``PostgresError`` if no job can go on.
    /// - Returns: Whether there was anything to do.
    private func step(_ resting: inout [Digest128: ContinuousClock.Instant]) async throws(PostgresError) -> Bool {
        let jobs = try await services.writer.run { connection throws(PostgresError) in
            try connection.run(JobStatements.running).map { row throws(PostgresError) in try row.next(Digest128.self) }
        }
        let now = ContinuousClock.now
        resting = resting.filter { $0.value > now && jobs.contains($0.key) }
        var isBusy = false
        for job in jobs where resting[job] == nil && !Task.isCancelled {
            do throws(PostgresError) {
                let acted = try await services.writer.run { connection throws(PostgresError) in
                    try Jobs.step(connection, job)
                }
                if acted { isBusy = true }
            } catch {
                if try await !settle(job, error) { resting[job] = .now + Self.rest }
            }
        }
        return isBusy
    }

    /// Handles a failed step of one job, so that the other jobs go on.
    ///
    /// - Throws: ``PostgresError`` if the session is at fault, and no job can go on.
    /// - Returns: Whether the job may be tried again at once.
    private func settle(_ job: Digest128, _ error: PostgresError) async throws(PostgresError) -> Bool {
        guard !error.isOfAllJobs else { throw error }
        // A deadlock, for example: the next step repeats the chunk.
        if error.failureClass == .rollback { return true }
        do throws(PostgresError) {
            if !error.maySucceedLater || error.failureClass == .permission {
                try await services.writer.run { connection throws(PostgresError) in
                    try Jobs.fail(connection, job, error.description)
                }
                return true
            }
        } catch let failure {
            // Even marking it as failed did not work.
            guard !failure.isOfAllJobs else { throw failure }
        }
        let isNew = try await services.writer.run { connection throws(PostgresError) in
            try connection.run(JobStatements.note(job, error.description)).affectedRows > 0
        }
        if isNew {
            warn("a job is held up; retrying", error)
        }
        return false
    }

    private func warn(_ message: StaticString, _ error: PostgresError) {
        services.logger.event(.warning, .databaseUnavailable, message, [.error: .string(error.description)])
    }

    private func sweep() async throws(PostgresError) {
        try await services.writer.run { connection throws(PostgresError) in
            try connection.run(JobStatements.release)
            while try connection.run(JobStatements.sweep(limit: 20)).affectedRows == 20 {}
            while try connection.run(IdempotencyStatements.sweep(limit: 1_000)).affectedRows == 1_000 {}
        }
    }
}

extension PostgresError {
    /// Whether the error affects all jobs: the session ended, or there is none to be had.
    fileprivate var isOfAllJobs: Bool {
        switch failureClass {
        case .authentication, .cancelled, .resources: true
        default: endsSession
        }
    }
}
