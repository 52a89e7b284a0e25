import Glibc
package import Postgres

/// A right that `run` needs, as `deploy/roles.sql` grants it to `upstream_worker`.
package struct WorkerRight: Sendable, Hashable {
    /// A table, sequence or function of the schema `upstream`, or the schema itself.
    package let object: String
    /// `SELECT`, `INSERT`, `UPDATE`, `DELETE`, `USAGE`, `EXECUTE`.
    package let privilege: String

    /// The rights that a role lacks, as `INSERT ON upstream.messages`, in the order of ``all``.
    ///
    /// The schema has to be this binary's. A nil role is the session's own.
    package static func missing(
        on connection: PostgresConnection,
        of role: String? = nil
    ) async throws(PostgresError) -> [String] {
        try await connection.result(of: CheckStatements.missing(all, of: role)).rows { $0 }
    }

    /// All of them; a test compares them with `deploy/roles.sql`.
    package static let all: [WorkerRight] = {
        let tables = [
            ("schema_migrations", "SELECT"), ("message_ids", "SELECT INSERT"), ("messages", "SELECT INSERT"),
            ("senders", "SELECT INSERT"), ("retention_runs", "SELECT INSERT"), ("retention_policy", "SELECT"),
            ("dead_messages", "SELECT"), ("conflicts", "SELECT INSERT UPDATE"), ("quarantine", "SELECT INSERT UPDATE"),
            ("archive_points", "SELECT INSERT UPDATE"),
            ("handlers", "SELECT INSERT UPDATE DELETE"), ("handler_workers", "SELECT INSERT UPDATE DELETE"),
            ("subscriptions", "SELECT INSERT UPDATE DELETE"), ("deliveries", "SELECT INSERT UPDATE DELETE"),
            ("delivery_blocks", "SELECT INSERT UPDATE DELETE"), ("dead_letters", "SELECT INSERT UPDATE DELETE"),
            ("workers", "SELECT INSERT UPDATE DELETE"), ("attempt_batches", "SELECT INSERT"), ("attempts", "SELECT"),
            ("samples", "SELECT INSERT"),
            ("replays", "SELECT INSERT UPDATE"), ("replay_messages", "SELECT INSERT DELETE"),
            ("replay_events", "SELECT INSERT"), ("channel_bindings", "SELECT INSERT DELETE"),
        ]
        let functions = [
            "ensure_partitions", "ensure_attempts", "raise_retention", "keep_dead_messages", "drop_partition",
            "purge_message_ids", "purge_conflicts", "purge_quarantine", "purge_dead_letters", "purge_dead_messages",
            "purge_attempts", "purge_audit", "purge_erasures", "ensure_samples", "purge_samples", "record_audit",
            "take_retention_request", "finish_retention_request",
        ]
        let first = [
            WorkerRight(object: "upstream", privilege: "USAGE"),
            WorkerRight(object: "lease_tokens", privilege: "USAGE"),
        ]
        let onTables = tables.flatMap { object, privileges in
            privileges.split(separator: " ").map { WorkerRight(object: object, privilege: String($0)) }
        }
        return first + onTables + functions.map { WorkerRight(object: $0, privilege: "EXECUTE") }
    }()
}

/// `roles.sql`, which grants the database's roles their rights.
package enum RolesScript {
    private static let packaged = "/usr/share/upstream-worker/roles.sql"

    /// Its path for people: the package's file if installed, else the source tree's.
    package static let path = access(packaged, R_OK) == 0 ? packaged : "deploy/roles.sql"
}
