package import Vocabulary

/// What is recorded in `upstream.audit`: the column `action`, a closed set.
package enum AuditAction: String, CaseIterable, Sendable {
    /// A handler was paused in every worker.
    case pauseHandler = "handlers.pause"
    /// A handler was resumed.
    case resumeHandler = "handlers.resume"
    /// A handler was removed with its deliveries and dead letters.
    case removeHandler = "handlers.remove"
    /// Dead letters were queued again.
    case retryDead = "dead.retry"
    /// Dead letters were deleted.
    case discardDead = "dead.discard"
    /// Deliveries that waited for their next attempt were made due at once.
    case retryDeliveries = "deliveries.retry-now"
    /// Deliveries that waited became dead letters.
    case cancelDeliveries = "deliveries.cancel"
    /// A conflict's content was handed to handlers.
    case releaseConflict = "conflicts.release"
    /// A device was erased.
    case forget = "forget"
    /// A replay was planned.
    case planReplay = "replays.plan"
    /// A replay was started, or continued.
    case startReplay = "replays.start"
    /// A replay was started from its first message again.
    case restartReplay = "replays.restart"
    /// A replay was paused.
    case pauseReplay = "replays.pause"
    /// A replay was resumed.
    case resumeReplay = "replays.resume"
    /// A replay was cancelled.
    case cancelReplay = "replays.cancel"
    /// Messages of an export were stored.
    case importMessages = "replays.import"
    /// The retention policy was set.
    case setPolicy = "partitions.policy"
    /// Retention was run by a command.
    case runRetention = "partitions.run"
    /// A migration was applied.
    case migrateUp = "migrate.up"
    /// A migration was rolled back.
    case migrateDown = "migrate.down"
    /// Registration tokens were shown.
    case revealTokens = "tokens.reveal"
}

/// Who does something, by which way, and why.
package struct AuditAuthor: Sendable, Equatable {
    /// The column `via`.
    package enum Way: String, CaseIterable, Sendable {
        /// A command of the program.
        case command
        /// The console.
        case console
    }

    /// The operating system's user and host, or the name that somebody signed in to the console with.
    package var name: String
    /// By which way.
    package var way: Way
    /// Why, in their own words; at most 1,000 characters of it are kept.
    package var reason: String?

    /// Somebody.
    package init(_ name: String, via way: Way, reason: String? = nil) {
        self.name = name
        self.way = way
        self.reason = reason
    }
}

/// An entry of the audit trail.
package struct AuditEntry: Sendable, Equatable {
    /// Grows from entry to entry.
    package var id: Int64
    /// When, by the database's clock.
    package var at: Timestamp
    /// Who.
    package var who: String
    /// The database role of the session.
    package var role: String
    /// `command` or `console`; another version may know more.
    package var via: String
    /// What: an ``AuditAction``, with `.finished` after it for the end of one that takes several transactions.
    package var action: String
    /// To what; never a registration token or a payload.
    package var subject: String
    /// To how many rows; nil where that is not known, or means nothing.
    package var count: Int64?
    /// Why.
    package var reason: String?
}

/// Which entries of the audit trail; what is nil does not narrow.
package struct AuditFilter: Sendable, Equatable {
    /// Who, in full.
    package var who: String?
    /// An action, or the part of it before the full stop: `dead` selects `dead.retry`, `dead.discard` and their ends.
    package var action: String?
    /// At or after.
    package var since: Timestamp?
    /// Before.
    package var until: Timestamp?
    /// Only entries with a smaller id: the last one of the page before.
    package var before: Int64?

    package init() {}
}
