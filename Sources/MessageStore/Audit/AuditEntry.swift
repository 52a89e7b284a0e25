package import Vocabulary

/// The actions of `upstream.audit`: a closed set.
package enum AuditAction: String, CaseIterable, Sendable {
    case pauseHandler = "handlers.pause"
    case resumeHandler = "handlers.resume"
    case removeHandler = "handlers.remove"
    case retryDead = "dead.retry"
    case discardDead = "dead.discard"
    /// Deliveries waiting for their next attempt were made due at once.
    case retryDeliveries = "deliveries.retry-now"
    /// Waiting deliveries became dead letters.
    case cancelDeliveries = "deliveries.cancel"
    case releaseConflict = "conflicts.release"
    case forget = "forget"
    case planReplay = "replays.plan"
    case startReplay = "replays.start"
    /// A replay was started again from its first message.
    case restartReplay = "replays.restart"
    case pauseReplay = "replays.pause"
    case resumeReplay = "replays.resume"
    case cancelReplay = "replays.cancel"
    /// Messages of an export were stored.
    case importMessages = "replays.import"
    case setPolicy = "partitions.policy"
    case runRetention = "partitions.run"
    case migrateUp = "migrate.up"
    case migrateDown = "migrate.down"
    case revealTokens = "tokens.reveal"
}

/// Who acts, by which way, and why.
package struct AuditAuthor: Sendable, Equatable {
    package enum Way: String, CaseIterable, Sendable {
        case command
        case console
    }

    /// The operating system's user and host, or the name used to sign in to the console.
    package var name: String
    package var way: Way
    /// The reason, in their own words; at most 1,000 characters are kept.
    package var reason: String?

    /// An author with an optional reason.
    package init(_ name: String, via way: Way, reason: String? = nil) {
        self.name = name
        self.way = way
        self.reason = reason
    }
}

/// An entry of the audit trail.
package struct AuditEntry: Sendable, Equatable {
    package var id: Int64
    /// By the database's clock.
    package var at: Timestamp
    package var who: String
    /// The database role of the session.
    package var role: String
    /// `command` or `console`; other versions may have more.
    package var via: String
    /// An ``AuditAction``, followed by `.finished` for the end of one that takes several transactions.
    package var action: String
    /// What was acted on; never a registration token or a payload.
    package var subject: String
    /// How many rows were affected; nil if unknown or meaningless.
    package var count: Int64?
    package var reason: String?
}

/// Selects entries of the audit trail; nil members select all.
package struct AuditFilter: Sendable, Equatable {
    /// The exact author.
    package var who: String?
    /// An action, or the part before the full stop: `dead` selects `dead.retry`, `dead.discard` and their ends.
    package var action: String?
    /// At or after.
    package var since: Timestamp?
    /// Before.
    package var until: Timestamp?
    /// Only entries with a smaller id: the last one of the previous page.
    package var before: Int64?

    package init() {}
}
