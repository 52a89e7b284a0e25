import Postgres

extension Retention {
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
