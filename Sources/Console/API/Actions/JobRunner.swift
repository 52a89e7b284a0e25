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
    /// How long it leaves a job alone that something holds up, so that a lock's timeout takes others' time rarely.
    private static let rest = Duration.seconds(5)
    /// How often it deletes what has expired.
    private static let sweepInterval = Duration.seconds(60)

    func run() async throws {
        await cancelWhenGracefulShutdown { await work() }
    }

    private func work() async {
        var isWarned = false
        var swept = ContinuousClock.now - Self.sweepInterval
        var resting: [Digest128: ContinuousClock.Instant] = [:]
        while !Task.isCancelled {
            let rings = bell.rings
            do throws(PostgresError) {
                while try await step(&resting), !Task.isCancelled {}
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
    /// - Parameter resting: Until when jobs are left alone.
    /// - Throws: ``PostgresError`` where no job can go on.
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

    /// Notes what a job's step failed with, so that the other jobs go on.
    ///
    /// - Throws: ``PostgresError`` where it is the session's fault, and no job can go on.
    /// - Returns: Whether the job can be looked at again at once.
    private func settle(_ job: Digest128, _ error: PostgresError) async throws(PostgresError) -> Bool {
        guard !error.isOfAllJobs else { throw error }
        // A deadlock: the same chunk again, at the next look.
        if error.failureClass == .rollback { return true }
        do throws(PostgresError) {
            if !error.maySucceedLater || error.failureClass == .permission {
                try await services.writer.run { connection throws(PostgresError) in
                    try Jobs.fail(connection, job, error.description)
                }
                return true
            }
        } catch let failure {
            // It can't even be given up.
            guard !failure.isOfAllJobs else { throw failure }
        }
        let isNew = try await services.writer.run { connection throws(PostgresError) in
            try connection.run(JobStatements.note(job, error.description)).affectedRows > 0
        }
        if isNew {
            services.logger.event(
                .warning,
                .databaseUnavailable,
                "a job is held up; retrying",
                [.error: .string(error.description)]
            )
        }
        return false
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
    /// Whether it is no single job's: the session ended, or none is to be had.
    fileprivate var isOfAllJobs: Bool {
        switch failureClass {
        case .authentication, .cancelled, .resources: true
        default: endsSession
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
