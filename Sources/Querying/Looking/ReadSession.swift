package import Postgres

extension PostgresConnection {
    /// Makes every further transaction of the session read-only, so that no mistake in a reading command changes data.
    ///
    /// Does nothing behind a pooler, where a session keeps no state.
    ///
    /// - Throws: ``PostgresError``
    package func becomeReadOnly() throws(PostgresError) {
        guard !isPooled else { return }
        try run(MessageStatements.readOnly)
    }
}
