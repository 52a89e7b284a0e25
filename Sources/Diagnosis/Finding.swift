/// One thing that `doctor` found wrong with a running system, and what to do about it.
package struct Finding: Sendable, Equatable {
    /// How much it matters.
    package enum Severity: String, Sendable, CaseIterable {
        /// Messages are held up or at risk now.
        case critical
        /// They will be, if nobody acts.
        case warning
        /// Worth knowing.
        case note
    }

    package let name: FindingName
    /// What is wrong, in one sentence with its figures.
    package let text: String
    /// What to do about it: a command, where there is one.
    package let fix: String

    package var severity: Severity { name.severity }
}

/// What `doctor` can find: a closed set of stable names, listed in `docs/findings.md`.
package enum FindingName: String, Sendable, CaseIterable {
    // The database.
    case databaseReadOnly = "database-read-only"
    case schemaDiffers = "schema-differs"
    case fsyncOff = "fsync-off"
    case fullPageWritesOff = "full-page-writes-off"
    case synchronousCommitWeak = "synchronous-commit-weak"
    case autovacuumOff = "autovacuum-off"
    case connectionsNearlyUsed = "connections-nearly-used"
    case rightsMissing = "rights-missing"
    case lockHeld = "lock-held"
    case transactionIDsOld = "transaction-ids-old"
    case sequenceNearlyUsed = "sequence-nearly-used"
    case indexInvalid = "index-invalid"
    case indexMissing = "index-missing"
    case triggerMissing = "trigger-missing"

    // What keeps vacuum from removing dead rows.
    case transactionOld = "transaction-old"
    case idleInTransaction = "idle-in-transaction"
    case preparedTransaction = "prepared-transaction"
    case slotInactive = "replication-slot-inactive"
    case slotBehind = "replication-slot-behind"
    case standbyHoldsRows = "standby-holds-rows"
    case deadRows = "dead-rows"

    // Partitions and retention.
    case noPartitionToday = "no-partition-today"
    case noPartitionsAhead = "no-partitions-ahead"
    case defaultPartition = "default-partition"
    case noPolicy = "no-retention-policy"
    case retentionLate = "retention-late"
    case retentionHeld = "retention-held"
    case attemptsUndated = "attempts-undated"
    case diskFilling = "disk-filling"
    case diskNearlyFull = "disk-nearly-full"

    // Replication.
    case standbyMissing = "standby-missing"
    case commitsWaiting = "commits-waiting"
    case standbyLag = "standby-lag"
    case noStandby = "no-standby"
    case readsBehind = "reads-behind"
    case readsDown = "reads-down"

    // Workers and senders.
    case noWorkers = "no-workers"
    case workerSilent = "worker-silent"
    case noReceiver = "no-receiver"
    case workerVersions = "worker-versions-differ"
    case senderUnbound = "sender-unbound"
    case commitsStalled = "commits-stalled"
    case certificateEnding = "certificate-ending"
    case clockDiffers = "clock-differs"
    case workerClockDiffers = "worker-clock-differs"
    case messagesFromFuture = "messages-from-future"
    case idScopesDiffer = "id-scopes-differ"

    // Handlers.
    case handlerUnclaimed = "handler-unclaimed"
    case handlerPaused = "handler-paused"
    case handlerFailing = "handler-failing"
    case handlerNeverDone = "handler-never-done"
    case deliveriesOld = "deliveries-old"
    case deadLettersGrowing = "dead-letters-growing"
    case deadLetters = "dead-letters"

    // What doctor could not see.
    case notLookedAt = "not-looked-at"

    // Odd messages.
    case quarantineSurge = "quarantine-surge"
    case conflictSurge = "conflict-surge"

    /// How much it matters.
    package var severity: Finding.Severity {
        switch self {
        case .databaseReadOnly, .schemaDiffers, .fsyncOff, .fullPageWritesOff, .noPartitionToday, .noPartitionsAhead,
            .diskNearlyFull, .rightsMissing, .lockHeld, .standbyMissing, .commitsWaiting, .noWorkers, .noReceiver,
            .senderUnbound:
            .critical
        case .synchronousCommitWeak, .noStandby, .deadLetters: .note
        default: .warning
        }
    }
}

/// What `doctor` saw of a system.
package struct Diagnosis: Sendable {
    /// Something that could not be looked at.
    package struct Unseen: Sendable, Equatable, Encodable {
        package var subject: String
        /// Why not, and what would help.
        package var reason: String
    }

    /// A figure for people.
    package struct Fact: Sendable, Equatable {
        package var name: String
        package var value: String
    }

    /// What is wrong, the worst first.
    package internal(set) var findings: [Finding] = []
    /// What could not be looked at.
    package internal(set) var unseen: [Unseen] = []
    package internal(set) var facts: [Fact] = []

    /// Whether nothing calls for an action: notes alone don't.
    package var isHealthy: Bool { !findings.contains { $0.severity != .note } }

    mutating func sort() {
        let order = Finding.Severity.allCases
        let ranked = findings.enumerated().map { (order.firstIndex(of: $1.severity) ?? 0, $0, $1) }
        findings = ranked.sorted { ($0.0, $0.1) < ($1.0, $1.1) }.map(\.2)
    }
}
