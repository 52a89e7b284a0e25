package import Postgres

extension PostgresConnection {
    /// Makes all further transactions of the session read-only, a guard against mistakes in reading commands.
    ///
    /// Does nothing behind a pooler, where a session keeps no state.
    package func becomeReadOnly() throws(PostgresError) {
        guard !isPooled else { return }
        try run(MessageStatements.readOnly)
    }
}
