extension PostgresConnection {
    /// Runs `body` in a transaction that is rolled back whatever comes of it.
    ///
    /// For finding out whether statements would work. Numbers that sequences gave stay used.
    ///
    /// - Parameter body: Runs the statements; a lock is waited for 5 s at most.
    /// - Throws: What `body` throws, or what PostgreSQL says to the transaction itself.
    /// - Returns: What `body` returned.
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
            // What can't be rolled back must not be committed by whoever uses the session next.
            do throws(PostgresError) { try script("ROLLBACK") } catch { close() }
        }
        return try result.get()
    }
}
