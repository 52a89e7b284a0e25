extension PostgresConnection {
    /// Runs `body` in a transaction that is always rolled back, to find out whether its statements would work.
    ///
    /// Waits 5 s at most for a lock. Sequence values stay used.
    package func trial<T, Failure: StatementFailure>(
        _ body: (isolated PostgresConnection) throws(Failure) -> T
    ) throws(Failure) -> T {
        try Failure.catching { () throws(PostgresError) in try begin("; SET LOCAL lock_timeout = 5000") }
        let result: Result<T, Failure>
        do throws(Failure) {
            result = .success(try body(self))
        } catch {
            result = .failure(error)
        }
        if isInTransaction {
            // Otherwise the session's next user could commit what was not rolled back.
            do throws(PostgresError) { try script("ROLLBACK") } catch { close() }
        }
        return try result.get()
    }
}
