package import Postgres
import Vocabulary

extension Retention {
    /// The policy in force; nil where none has been set yet, so that nothing is deleted.
    ///
    /// - Throws: ``PostgresError``
    package func policy() async throws(PostgresError) -> RetentionPolicyInForce? {
        try await connection.run { connection throws(PostgresError) in
            let result = try connection.query(RetentionStatements.policy)
            guard result.count > 0 else { return nil }
            func time(_ column: Int) -> Duration { .microseconds(result.integer(0, column) ?? 0) }
            return RetentionPolicyInForce(
                policy: RetentionPolicy(
                    messages: time(0),
                    dedupeWindow: time(1),
                    deadLetters: time(2),
                    attempts: time(3)
                ),
                setBy: result.text(0, 4) ?? "",
                age: time(5),
                setAt: result.timestamp(0, 6) ?? 0
            )
        }
    }

    /// Sets the policy where there is none, and makes longer what it keeps for a shorter time than this.
    ///
    /// - Returns: Whether that changed something.
    /// - Throws: ``PostgresError``
    package func raise(to policy: RetentionPolicy) async throws(PostgresError) -> Bool {
        try await change("raise_retention", policy)
    }

    /// Sets the policy, to shorter times as well; only the tables' owner may.
    ///
    /// - Throws: ``PostgresError``
    package func set(_ policy: RetentionPolicy) async throws(PostgresError) {
        _ = try await change("set_retention", policy)
    }

    private func change(_ function: String, _ policy: RetentionPolicy) async throws(PostgresError) -> Bool {
        try await connection.run { connection throws(PostgresError) in
            var parameters = PostgresParameters()
            for time in [policy.messages, policy.dedupeWindow, policy.deadLetters, policy.attempts] {
                parameters.append(time.microseconds)
            }
            return try connection.query(RetentionStatements.setting(function), parameters).integer(0, 0) ?? 0 > 0
        }
    }
}
