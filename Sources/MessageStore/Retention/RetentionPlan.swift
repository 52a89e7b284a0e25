package import Vocabulary

/// One partition of `messages`, usually a day, and what retention does with it.
package struct PartitionPlan: Sendable, Equatable {
    /// What happens to a partition.
    package enum Fate: String, CaseIterable, Sendable {
        /// For a day to come.
        case ahead
        /// Within `retention.messages`.
        case keep
        /// Too old, and no delivery needs it any more; what dead letters need of it is kept elsewhere.
        case drop
        /// Too old, but deliveries still need it.
        case held
    }

    /// The UTC day, or the first of several.
    package var day: UTCDay
    /// The end of the last one.
    package var end: Timestamp
    /// The table's name.
    package var name: String
    /// Rows, estimated from the catalog; nil where nothing is known yet.
    package var rows: Int64?
    /// Bytes on disk, with indexes.
    package var bytes: Int64
    /// Deliveries that still need it; counted only where it is too old.
    package var waiting: Int64 = 0
    /// Dead letters of it, which keep their messages when it goes; counted only where it is too old.
    package var deadLetters: Int64 = 0
    /// What happens to it.
    package var fate: Fate

    /// Decides: time alone, unless a delivery still needs the bodies.
    package init(
        name: String,
        day: UTCDay,
        end: Timestamp,
        rows: Int64?,
        bytes: Int64,
        needs: (waiting: Int64, deadLetters: Int64),
        policy: RetentionPolicy,
        now: Timestamp
    ) {
        self.name = name
        self.day = day
        self.end = end
        self.rows = rows
        self.bytes = bytes
        fate = policy.fate(of: day, until: end, now)
        guard fate == .drop else { return }
        (waiting, deadLetters) = needs
        if waiting > 0 { fate = .held }
    }
}

/// What retention would do now.
package struct RetentionPlan: Sendable {
    /// Now, by the database's clock.
    package var now: Timestamp
    /// The policy that it was made by.
    package var policy: RetentionPolicy
    /// The partitions, oldest first.
    package var partitions: [PartitionPlan]
    /// The days from yesterday to a week ahead that have no partition yet.
    package var missing: [UTCDay]
    /// Rows of the ledger, estimated from the catalog; nil where nothing is known yet.
    package var ledgerRows: Int64?
    /// How many of them are too old, estimated from ANALYZE's histogram; nil where nothing is known yet.
    package var ledgerExpired: Int64?
    /// Conflicts that are too old, counted.
    package var conflicts: Int64
    /// Quarantined stanzas that are too old, counted.
    package var quarantine: Int64
    /// Dead letters that are too old, counted.
    package var deadLetters: Int64

    /// The partitions with this fate.
    package func partitions(_ fate: PartitionPlan.Fate) -> [PartitionPlan] { partitions.filter { $0.fate == fate } }
}

/// What a run of retention did.
package struct RetentionReport: Sendable, Equatable {
    /// Partitions made ahead.
    package var created = 0
    /// Partitions dropped.
    package var dropped: [PartitionPlan] = []
    /// Partitions that are too old and still needed: kept.
    package var held: [PartitionPlan] = []
    /// Partitions that somebody else was using all the time: kept for another run.
    package var locked: [PartitionPlan] = []
    /// Deliveries given up with their day, by force.
    package var deliveries = 0
    /// Dead letters of dropped days, which keep their messages.
    package var deadLettersKept = 0
    /// Dead letters deleted for their age.
    package var deadLetters = 0
    /// Ledger rows deleted.
    package var ledger = 0
    /// Conflicts deleted.
    package var conflicts = 0
    /// Quarantined stanzas deleted.
    package var quarantine = 0
    /// Messages deleted that were kept for dead letters which are gone.
    package var deadMessages = 0
    /// Entries of the audit trail deleted.
    package var audit = 0
    /// Days of the history of attempts dropped.
    package var attemptDays = 0
    /// Days of the history that somebody else was using all the time: kept for another run.
    package var attemptDaysLocked = 0
    /// Whether another process was at it, so that this one left the rest to it.
    package var isBusy = false
    /// Why nothing was deleted; nil where nothing stood against it.
    package var refusal: RetentionRefusal?

    /// Whether nothing was left for want of a lock, or of a right to delete.
    package var isComplete: Bool { !isBusy && locked.isEmpty && attemptDaysLocked == 0 && refusal == nil }
    /// How many rows were deleted, besides those of dropped days.
    package var rows: Int { ledger + conflicts + quarantine + deadLetters + deadMessages }
}

/// Why a run deletes nothing.
package enum RetentionRefusal: Sendable, Equatable {
    /// The asking process's clock and the database's differ by so much that one of them can't be right.
    case clock(ClockDifference)
    /// No worker has set a policy in this database yet.
    case noPolicy
}

/// How far a run is.
package enum RetentionProgress: Sendable {
    /// A day's partition was dropped, is held, or could not be locked.
    case partition(PartitionPlan, RetentionOutcome)
    /// The ledger was read up to a block.
    case ledger(block: Int64, of: Int64, deleted: Int)
    /// Conflicts, quarantined stanzas and dead letters were deleted.
    case odd(deleted: Int)
}

/// What became of one partition.
package enum RetentionOutcome: String, Sendable {
    /// It is gone.
    case dropped
    /// It was gone already.
    case absent
    /// Deliveries need it.
    case pending
    /// Somebody uses the table.
    case locked
    /// Another process is at it.
    case busy
}
