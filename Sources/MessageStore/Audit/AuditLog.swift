package import Postgres

/// The table `audit`: what people did.
///
/// An entry is recorded in the action's transaction, so that neither exists without the other. An action of several
/// transactions records what it is about to do in, or before, the first, and what it did after the last.
package enum AuditLog {
    /// Records an action inside its transaction; after an error, which explains an older schema, the caller must not commit.
    ///
    /// The subject never holds a registration token (its device_key instead) or a payload; at most 1,000 characters are
    /// kept. The count of affected rows is nil if unknown or meaningless. `isEnd` ends an action that was recorded before.
    package static func record(
        _ connection: isolated PostgresConnection,
        _ action: AuditAction,
        _ subject: String,
        count: Int? = nil,
        by author: AuditAuthor,
        isEnd: Bool = false
    ) throws(PostgresError) {
        let name = action.rawValue + (isEnd ? ".finished" : "")
        do throws(PostgresError) {
            try connection.run(AuditStatements.record(name, subject, count: count, by: author))
        } catch {
            throw explained(error)
        }
    }

    /// Records an action in its own transaction: before the first of several, or after the last.
    package static func record(
        over connection: PostgresConnection,
        _ action: AuditAction,
        _ subject: String,
        count: Int? = nil,
        by author: AuditAuthor,
        isEnd: Bool = false
    ) async throws(PostgresError) {
        try await connection.inTransaction { connection throws(PostgresError) in
            try record(connection, action, subject, count: count, by: author, isEnd: isEnd)
        }
    }

    /// A page of entries, latest first.
    package static func page(
        _ connection: isolated PostgresConnection,
        _ filter: AuditFilter,
        limit: Int
    ) throws(PostgresError) -> [AuditEntry] {
        try connection.run(AuditStatements.page(filter, limit: limit)).rows(AuditEntry.init)
    }

    /// Adds to the error what to do about a schema, or roles, of an earlier version.
    private static func explained(_ error: PostgresError) -> PostgresError {
        var error = error
        switch error.sqlState {
        // undefined_function, invalid_schema_name
        case "42883", "3F000":
            error.message = "the schema has no audit trail, nothing was done: run `upstream-worker migrate up`"
        case "42501":
            error.message += ": nothing was done; run \(RolesScript.path) again"
        default: break
        }
        return error
    }
}
