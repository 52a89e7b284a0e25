package import Postgres
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
    /// Somebody asked for a device's erasure, which the tables' owner does.
    case requestErasure = "forget.request"
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
    /// Somebody asked for a run of retention, which a worker does.
    case requestRetention = "partitions.request"
    case migrateUp = "migrate.up"
    case migrateDown = "migrate.down"
    /// A sender's pin of channel binding was deleted.
    case forgetPin = "check.forget-pin"
    case revealTokens = "tokens.reveal"
    /// A silent worker is known of, and no longer listed.
    case dismissWorker = "workers.dismiss"
    /// Quarantined stanzas are known of, and listed again when they come again.
    case dismissStanzas = "quarantine.dismiss"
    /// Quarantined stanzas were judged again, and stored where they are messages now.
    case retryStanzas = "quarantine.retry"
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

/// The table `audit`: what people did.
///
/// An entry is recorded in the action's transaction, so that neither exists without the other. An action of several
/// transactions records what it is about to do in, or before, the first, and what it did after the last.
package enum AuditLog {
    /// Records an action inside its transaction; after an error, which explains an older schema, the caller must not commit.
    ///
    /// The subject never holds a registration token (its device_key instead) or a payload; at most 1,000 characters are
    /// kept. The count of affected rows is nil if unknown or meaningless. `isEnd` ends an action that was recorded before.
    package static func record(
        _ connection: isolated PostgresConnection,
        _ action: AuditAction,
        _ subject: String,
        count: Int? = nil,
        by author: AuditAuthor,
        isEnd: Bool = false
    ) throws(PostgresError) {
        let name = action.rawValue + (isEnd ? ".finished" : "")
        do throws(PostgresError) {
            try connection.run(AuditStatements.record(name, subject, count: count, by: author))
        } catch {
            throw explained(error)
        }
    }

    /// Records an action in its own transaction: before the first of several, or after the last.
    package static func record(
        over connection: PostgresConnection,
        _ action: AuditAction,
        _ subject: String,
        count: Int? = nil,
        by author: AuditAuthor,
        isEnd: Bool = false
    ) async throws(PostgresError) {
        try await connection.inTransaction { connection throws(PostgresError) in
            try record(connection, action, subject, count: count, by: author, isEnd: isEnd)
        }
    }

    /// A page of entries, latest first.
    package static func page(
        _ connection: isolated PostgresConnection,
        _ filter: AuditFilter,
        limit: Int
    ) throws(PostgresError) -> [AuditEntry] {
        try connection.run(AuditStatements.page(filter, limit: limit)).rows(AuditEntry.init)
    }

    /// Adds to the error what to do about a schema, or roles, of an earlier version.
    private static func explained(_ error: PostgresError) -> PostgresError {
        var error = error
        switch error.sqlState {
        // undefined_function, invalid_schema_name
        case "42883", "3F000":
            error.message = "the schema has no audit trail, nothing was done: run `upstream-worker migrate up`"
        case "42501":
            error.message += ": nothing was done; run \(RolesScript.path) again"
        default: break
        }
        return error
    }
}

enum AuditStatements {
    /// Adds an entry; returns its id.
    static func record(_ action: String, _ subject: String, count: Int?, by author: AuditAuthor) -> SQL {
        """
        SELECT upstream.record_audit(
            \(author.name), \(author.way.rawValue), \(action), \(subject), \(count), \(author.reason)
        )
        """
    }

    /// Whether the audit trail exists: the oldest migrations predate it.
    static let exists: SQL = "SELECT to_regclass('upstream.audit') IS NOT NULL"

    static func page(_ filter: AuditFilter, limit: Int) -> SQL {
        let condition: SQL = .all([
            filter.who.map { "who = \($0)" },
            filter.action.map { "(action = \($0) OR starts_with(action, \($0) || '.'))" },
            filter.since.map { "at >= \($0)" },
            filter.until.map { "at < \($0)" },
            filter.before.map { "id < \($0)" },
        ])
        return """
            SELECT id, at, who, role, via, action, subject, count, reason
            FROM upstream.audit WHERE \(condition) ORDER BY id DESC LIMIT \(limit)
            """
    }
}
