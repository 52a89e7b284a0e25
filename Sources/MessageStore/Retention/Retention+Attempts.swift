import Postgres

extension Retention {
    /// Lets go what the history of attempts and the audit trail hold that is too old.
    ///
    /// - Returns: What stood against it: no reason for the rest of the run to count as not made.
    func purgeHistory(_ done: inout RetentionReport) async -> PostgresError? {
        var fault: PostgresError?
        do throws(PostgresError) { try await purgeAttempts(&done) } catch { fault = error }
        do throws(PostgresError) { try await purge(.audit, \.audit, &done) { _ in } } catch { fault = fault ?? error }
        return fault
    }

    /// Makes the days of the history that the policy in force asks for; tried again by the next run where that fails.
    package func ensureAttemptDays() async {
        _ = try? await connection.run { connection throws(PostgresError) in
            try AttemptDays.ensure(connection, around: UTCDay(try connection.run(RetentionStatements.now).value()))
        }
    }

    /// Drops the days of the history of attempts that are past their retention; each is tried for as long as one of messages.
    func purgeAttempts(_ done: inout RetentionReport) async throws(PostgresError) {
        var pause = pace.pause
        for attempt in 1...pace.attempts where !done.isBusy {
            let (dropped, locked) = try await connection.run { connection throws(PostgresError) in
                try connection.run(AttemptStatements.purge).only { row throws(PostgresError) in
                    (try row.next(Int?.self), try row.next(Int?.self))
                }
            }
            guard let dropped, let locked else {
                done.isBusy = true
                return
            }
            done.attemptDays += dropped
            done.attemptDaysLocked = locked
            guard locked > 0, attempt < pace.attempts else { return }
            try await rest(pause)
            pause = min(pause * 2, pace.longestPause)
        }
    }
}
