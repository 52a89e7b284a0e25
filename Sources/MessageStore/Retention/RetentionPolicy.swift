package import Vocabulary

/// How long what is kept is kept.
package struct RetentionPolicy: Sendable, Equatable {
    /// How long bodies are kept: messages, conflicts and quarantined stanzas.
    package var messages: Duration
    /// How long the ledger knows a message.
    ///
    /// The configuration sees to it that it is no shorter than ``messages`` and than the peer's longest redelivery.
    package var dedupeWindow: Duration
    /// How long dead letters are kept, with the messages they are about.
    package var deadLetters: Duration
    /// How long a record of attempts is kept; zero for none.
    package var attempts: Duration

    /// A policy.
    ///
    /// - Parameters:
    ///   - messages: How long bodies are kept.
    ///   - dedupeWindow: How long the ledger knows a message.
    ///   - deadLetters: How long dead letters are kept.
    ///   - attempts: How long a record of attempts is kept.
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

    /// What a configuration sets, by the key's name within `retention`.
    package static var configured: [(key: String, path: WritableKeyPath<RetentionPolicy, Duration>)] {
        [
            ("messages", \.messages), ("dedupe_window", \.dedupeWindow), ("dead_letters", \.deadLetters),
            ("attempts", \.attempts),
        ]
    }

    /// The keys, of those that a configuration sets, for which this policy keeps longer than another.
    package func longer(
        than other: RetentionPolicy
    ) -> [(key: String, path: WritableKeyPath<RetentionPolicy, Duration>)] {
        Self.configured.filter { self[keyPath: $0.path] > other[keyPath: $0.path] }
    }

    /// Bodies from before this time are too old.
    ///
    /// Later than the policy says by as much as the time in a row may be from before its commit, as `upstream.retention_end`.
    package func bodiesEnd(_ now: Timestamp) -> Timestamp { now - messages - StampLimits.oldest }

    /// Ledger rows from before this time are too old, likewise.
    package func ledgerEnd(_ now: Timestamp) -> Timestamp { now - dedupeWindow - StampLimits.oldest }

    /// Dead letters from before this time are too old.
    package func deadLettersEnd(_ now: Timestamp) -> Timestamp { now - deadLetters }

    /// What becomes of the bodies of a partition, as far as time alone decides: it goes once its last moment is too old.
    ///
    /// - Parameters:
    ///   - day: The partition's first day.
    ///   - end: The end of its last one.
    ///   - now: The present time.
    /// - Returns: ``PartitionPlan/Fate/drop``, `ahead` or `keep`.
    package func fate(of day: UTCDay, until end: Timestamp, _ now: Timestamp) -> PartitionPlan.Fate {
        if end <= bodiesEnd(now) { return .drop }
        return day > UTCDay(now) ? .ahead : .keep
    }
}

/// The policy that a database enforces.
package struct RetentionPolicyInForce: Sendable, Equatable {
    /// How long what is kept.
    package var policy: RetentionPolicy
    /// The role that set it last.
    package var setBy: String
    /// How long ago that was, by the database's clock.
    package var age: Duration
    /// When that was.
    package var setAt: Timestamp
}

extension UTCDay {
    private static let length: Int64 = 86_400_000_000

    /// The day's first moment.
    package var start: Timestamp { Timestamp(microseconds: number * Self.length) }

    /// The next day's first moment.
    package var end: Timestamp { Timestamp(microseconds: (number + 1) * Self.length) }
}
