package import Postgres
package import Vocabulary

/// A partition of `messages`, usually a day, with what retention does to it.
@dynamicMemberLookup package struct PartitionPlan: Sendable, Equatable {
    /// What happens to a partition.
    package enum Fate: String, CaseIterable, Sendable {
        /// A future day.
        case ahead
        /// Within `retention.messages`.
        case keep
        /// Expired, and needed by no delivery; what dead letters need is copied.
        case drop
        /// Expired, but still needed by deliveries.
        case held
    }

    let partition: Partition
    /// Deliveries that still need it; counted only if it is expired.
    package var waiting: Int64 = 0
    /// Its dead letters, which keep their messages when it is dropped; counted only if it is expired.
    package var deadLetters: Int64 = 0
    package var fate: Fate

    /// Decides the fate: time alone, unless a delivery still needs the bodies.
    init(_ partition: Partition, needs: (waiting: Int64, deadLetters: Int64), policy: RetentionPolicy, now: Timestamp) {
        self.partition = partition
        fate = policy.fate(of: partition.day, until: partition.end, now)
        guard fate == .drop else { return }
        (waiting, deadLetters) = needs
        if waiting > 0 { fate = .held }
    }

    package subscript<Value>(dynamicMember member: KeyPath<Partition, Value>) -> Value { partition[keyPath: member] }
}

/// A row of ``RetentionStatements/partitions``.
package struct Partition: Sendable, Equatable {
    package var name: String
    /// The catalog's estimate of rows; nil if unknown.
    package var rows: Int64?
    /// Bytes on disk, indexes included.
    package var bytes: Int64
    /// The first UTC day.
    package var day: UTCDay
    /// The end of the last day.
    package var end: Timestamp
}

package struct RetentionPlan: Sendable {
    /// The database's time.
    package var now: Timestamp
    package var policy: RetentionPolicy
    package var partitions: [PartitionPlan]
    /// The days from yesterday to a week ahead without a partition.
    package var missing: [UTCDay]
    /// The catalog's estimate of ledger rows; nil if unknown.
    package var ledgerRows: Int64?
    /// How many of them are too old, estimated from ANALYZE's histogram; nil if unknown.
    package var ledgerExpired: Int64?
    /// What is too old, counted.
    package var conflicts: Int64
    package var quarantine: Int64
    package var deadLetters: Int64

    package func partitions(_ fate: PartitionPlan.Fate) -> [PartitionPlan] { partitions.filter { $0.fate == fate } }
}

package struct RetentionReport: Sendable, Equatable {
    /// Partitions made ahead.
    package var created = 0
    package var dropped: [PartitionPlan] = []
    /// Expired partitions kept because they are still needed.
    package var held: [PartitionPlan] = []
    /// Partitions kept because somebody else was using them all the time.
    package var locked: [PartitionPlan] = []
    /// Deliveries deleted with their day, by force.
    package var deliveries = 0
    /// Dead letters of dropped days, which keep their messages.
    package var deadLettersKept = 0
    /// Dead letters deleted for their age.
    package var deadLetters = 0
    package var ledger = 0
    package var conflicts = 0
    package var quarantine = 0
    /// Messages deleted because the dead letters they were kept for are gone.
    package var deadMessages = 0
    /// Entries of the audit trail deleted.
    package var audit = 0
    /// Rows of `erasures` deleted for their age.
    package var erasures = 0
    /// Days of the history of attempts dropped.
    package var attemptDays = 0
    /// Days of the history kept because somebody else was using them all the time.
    package var attemptDaysLocked = 0
    /// Whether another process was running retention, which does the rest.
    package var isBusy = false
    /// Why nothing was deleted; nil if nothing stood in the way.
    package var refusal: RetentionRefusal?

    /// Whether nothing was left for lack of a lock or a right.
    package var isComplete: Bool { !isBusy && locked.isEmpty && attemptDaysLocked == 0 && refusal == nil }
    /// The number of deleted rows, besides those of dropped days.
    package var rows: Int { ledger + conflicts + quarantine + deadLetters + deadMessages }

    /// What was done, and what was left and why, in a line.
    package var words: String {
        if let refusal { return refusal.words }
        let left = [(held.count, "still needed"), (locked.count + attemptDaysLocked, "in use")].filter { $0.0 > 0 }
            .map { "\(Amount.counted($0.0, "day")) kept, \($0.1)" }
        let done = "\(Amount.counted(dropped.count, "day")) dropped, \(Amount.counted(rows, "row")) deleted"
        return ([done] + left).joined(separator: "; ")
    }
}

/// Why a run deletes nothing.
package enum RetentionRefusal: Sendable, Equatable {
    /// This process's clock and the database's differ so much that one of them must be wrong.
    case clock(ClockDifference)
    /// No worker has set a policy in this database yet.
    case noPolicy

    /// That nothing was deleted, and why.
    package var words: String {
        switch self {
        case .clock(let difference): "nothing was deleted: \(difference.description)"
        case .noPolicy: "nothing was deleted: no retention policy is in force"
        }
    }
}

package enum RetentionProgress: Sendable {
    /// A day's partition was dropped, is held, or could not be locked.
    case partition(PartitionPlan, RetentionOutcome)
    /// The ledger was read up to a block.
    case ledger(block: Int64, of: Int64, deleted: Int)
    /// Conflicts, quarantined stanzas and dead letters were deleted.
    case odd(deleted: Int)
}

/// The outcome for one partition.
package enum RetentionOutcome: String, SQLDecodable, Sendable {
    case dropped
    /// It no longer existed.
    case absent
    /// Deliveries still need it.
    case pending
    /// Somebody uses it.
    case locked
    /// Another process is running retention.
    case busy
}

extension Retention {
    /// The handlers and replays for which most is held of days before a time; counts stop at a limit.
    package func holders(
        before end: Timestamp,
        counted limit: Int
    ) async throws(PostgresError) -> [(name: String, count: Int64)] {
        try await connection.result(of: RetentionStatements.holders(before: end, counted: limit)).rows { ($0, $1) }
    }
}
