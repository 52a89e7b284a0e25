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

    /// Keeps the server from compiling the plans of the session's statements, which takes longer than running short ones.
    ///
    /// Does nothing behind a pooler.
    ///
    /// - Throws: ``PostgresError``
    package func planForShortStatements() throws(PostgresError) {
        guard !isPooled else { return }
        try run(MessageStatements.withoutCompiling)
    }
}
