package import Postgres
import Vocabulary

extension Retention {
    /// The policy in force; nil if none was ever set, so that nothing is deleted.
    package func policy() async throws(PostgresError) -> RetentionPolicyInForce? {
        try await connection.result(of: RetentionStatements.policy).first { row throws(PostgresError) in
            RetentionPolicyInForce(
                policy: RetentionPolicy(
                    messages: .microseconds(try row.next(Int64.self)),
                    dedupeWindow: .microseconds(try row.next(Int64.self)),
                    deadLetters: .microseconds(try row.next(Int64.self)),
                    attempts: .microseconds(try row.next(Int64.self))
                ),
                setBy: try row.next(),
                age: .microseconds(try row.next(Int64.self)),
                setAt: try row.next()
            )
        }
    }

    /// Sets the policy if there is none, and lengthens times that are shorter than this.
    ///
    /// - Returns: Whether that changed something.
    package func raise(to policy: RetentionPolicy) async throws(PostgresError) -> Bool {
        try await change(RetentionStatements.raise(to: policy))
    }

    /// Sets the policy, also to shorter times; only the tables' owner may.
    package func set(_ policy: RetentionPolicy, by author: AuditAuthor) async throws(PostgresError) {
        let times = RetentionPolicy.configured.map { key, path in "\(key) \(policy[keyPath: path].unitText)" }
        _ = try await connection.run { connection throws(PostgresError) in
            try connection.transaction { connection throws(PostgresError) in
                try connection.run(RetentionStatements.set(policy))
                try AuditLog.record(connection, .setPolicy, times.joined(separator: ", "), by: author)
            }
        }
    }

    private func change(_ sql: SQL) async throws(PostgresError) -> Bool {
        try await connection.result(of: sql).value(Int.self) > 0
    }
}
