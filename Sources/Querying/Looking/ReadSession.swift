package import Postgres

extension PostgresConnection {
    /// Makes every further transaction of the session read-only, so that no mistake of a looking command changes anything.
    ///
    /// Behind a pooler no state of the session can be kept; there the commands' own care has to do.
    ///
    /// - Throws: ``PostgresError``
    package func becomeReadOnly() throws(PostgresError) {
        guard !isPooled else { return }
        try script("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
    }
}
