package import Postgres
package import Vocabulary

/// How long each kind of data is kept.
package struct RetentionPolicy: Sendable, Equatable {
    /// How long bodies are kept: messages, conflicts and quarantined stanzas.
    package var messages: Duration
    /// How long the ledger knows a message.
    ///
    /// The configuration ensures that it is no shorter than ``messages`` and the peer's longest redelivery.
    package var dedupeWindow: Duration
    /// How long dead letters are kept, with the messages they are about.
    package var deadLetters: Duration
    /// How long the history of attempts is kept; zero for none.
    package var attempts: Duration

    /// A policy with defaults for dead letters (90 days) and attempts (7 days).
    package init(
        messages: Duration,
        dedupeWindow: Duration,
        deadLetters: Duration = .seconds(90 * 86_400),
        attempts: Duration = .seconds(7 * 86_400)
    ) {
        self.messages = messages
        self.dedupeWindow = dedupeWindow
        self.deadLetters = deadLetters
        self.attempts = attempts
    }

    /// The times that a configuration sets, by their keys in `retention`.
    package static var configured: [(key: String, path: WritableKeyPath<RetentionPolicy, Duration>)] {
        [
            ("messages", \.messages), ("dedupe_window", \.dedupeWindow), ("dead_letters", \.deadLetters),
            ("attempts", \.attempts),
        ]
    }

    /// The keys for which this policy keeps longer than another.
    package func longer(
        than other: RetentionPolicy
    ) -> [(key: String, path: WritableKeyPath<RetentionPolicy, Duration>)] {
        Self.configured.filter { self[keyPath: $0.path] > other[keyPath: $0.path] }
    }

    /// Bodies from before this time are too old.
    ///
    /// Earlier than the policy alone says by the most that a row's time may precede its commit, as in
    /// `upstream.retention_end`.
    package func bodiesEnd(_ now: Timestamp) -> Timestamp { now - messages - StampLimits.oldest }

    /// Ledger rows from before this time are too old, with the same margin.
    package func ledgerEnd(_ now: Timestamp) -> Timestamp { now - dedupeWindow - StampLimits.oldest }

    /// Dead letters from before this time are too old.
    package func deadLettersEnd(_ now: Timestamp) -> Timestamp { now - deadLetters }

    /// The fate of a partition by time alone: it is dropped once its last moment is too old.
    package func fate(of day: UTCDay, until end: Timestamp, _ now: Timestamp) -> PartitionPlan.Fate {
        if end <= bodiesEnd(now) { return .drop }
        return day > UTCDay(now) ? .ahead : .keep
    }
}

package struct RetentionPolicyInForce: Sendable, Equatable {
    package var policy: RetentionPolicy
    /// The role that last set it.
    package var setBy: String
    /// How long ago it was set, by the database's clock.
    package var age: Duration
    package var setAt: Timestamp
}

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
