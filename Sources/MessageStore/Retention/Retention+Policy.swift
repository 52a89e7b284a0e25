package import Postgres
import Vocabulary

extension Retention {
    /// The policy in force; nil if none was ever set, so that nothing is deleted.
    package func policy() async throws(PostgresError) -> RetentionPolicyInForce? {
        try await connection.result(of: RetentionStatements.policy).firstRow {
            RetentionPolicyInForce(
                policy: RetentionPolicy(messages: $0, dedupeWindow: $1, deadLetters: $2, attempts: $3),
                setBy: $4,
                age: $5,
                setAt: $6
            )
        }
    }

    /// Sets the policy if there is none, and lengthens times that are shorter than this.
    ///
    /// - Returns: Whether that changed something.
    package func raise(to policy: RetentionPolicy) async throws(PostgresError) -> Bool {
        try await connection.result(of: RetentionStatements.raise(to: policy)).value(Int.self) > 0
    }

    /// Sets the policy, also to shorter times; only the tables' owner may.
    package func set(_ policy: RetentionPolicy, by author: AuditAuthor) async throws(PostgresError) {
        let times = RetentionPolicy.configured.map { key, path in "\(key) \(policy[keyPath: path].unitText)" }
        try await connection.inTransaction { connection throws(PostgresError) in
            try connection.run(RetentionStatements.set(policy))
            try AuditLog.record(connection, .setPolicy, times.joined(separator: ", "), by: author)
        }
    }
}
