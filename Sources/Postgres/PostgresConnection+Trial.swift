extension PostgresConnection {
    /// Runs `body` in a transaction that is rolled back whatever comes of it.
    ///
    /// For finding out whether statements would work. Numbers that sequences gave stay used.
    ///
    /// - Parameter body: Runs the statements; a lock is waited for 5 s at most.
    /// - Throws: ``PostgresError``
    /// - Returns: What `body` returned.
    package func trial<T>(
        _ body: (isolated PostgresConnection) throws(PostgresError) -> T
    ) throws(PostgresError) -> T {
        let parameters = isPooled ? settings.parameters("SET LOCAL") + "; " : ""
        try script("BEGIN; " + parameters + "SET LOCAL lock_timeout = 5000")
        let result: Result<T, PostgresError>
        do throws(PostgresError) {
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
