import Postgres

extension Retention {
    /// Deletes what is too old in the history of attempts and the audit trail.
    ///
    /// - Returns: The failure, if any; it does not make the rest of the run incomplete.
    func purgeHistory(_ done: inout RetentionReport) async -> PostgresError? {
        var fault: PostgresError?
        do throws(PostgresError) { try await purgeAttempts(&done) } catch { fault = error }
        do throws(PostgresError) { try await purge(.audit, \.audit, &done) { _ in } } catch { fault = fault ?? error }
        return fault
    }

    /// Creates the history's days that the policy asks for; after a failure the next run tries again.
    package func ensureAttemptDays() async {
        _ = try? await connection.run { connection throws(PostgresError) in
            try AttemptDays.ensure(connection, around: UTCDay(try connection.run(RetentionStatements.now).value()))
        }
    }

    /// Drops the expired days of the history; each is tried for as long as a day of messages.
    func purgeAttempts(_ done: inout RetentionReport) async throws(PostgresError) {
        var pause = pace.pause
        for attempt in 1...pace.attempts where !done.isBusy {
            let (dropped, locked): (Int?, Int?) =
                try await connection.result(of: AttemptStatements.purge).onlyRow { ($0, $1) }
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
