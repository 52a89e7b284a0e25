package import Postgres
package import UpstreamKit
package import Vocabulary

/// Selects dead letters; nil members select all.
package struct DeadLetterFilter: Sendable {
    package var handler: String?
    package var group: String?
    package var category: String?
    /// Any of these messages; all if empty.
    package var messageKeys: [MessageKey] = []
    /// Died at or after.
    package var since: Timestamp?
    /// Died before.
    package var until: Timestamp?

    package init() {}
}

extension DeadLetterFilter: CustomStringConvertible {
    /// The conditions as text, each after a comma; empty without conditions.
    package var description: String {
        [
            handler.map { "handler \($0)" }, group.map { "group '\($0)'" }, category.map { "category \($0)" },
            since.map { "since \($0.rfc3339)" }, until.map { "until \($0.rfc3339)" }, messages,
        ].afterCommas
    }

    private var messages: String? {
        guard !messageKeys.isEmpty else { return nil }
        // The audit trail keeps 1,000 characters.
        let (named, rest) = (messageKeys.prefix(20), messageKeys.count - 20)
        return (messageKeys.count == 1 ? "message " : "messages ") + named.map(\.description).joined(separator: " ")
            + (rest > 0 ? " and \(rest) more" : "")
    }
}

/// Selects groups of dead letters; nil members select all.
package struct DeadGroupFilter: Sendable {
    package var handler: String?
    /// Held by the handler's or the group's name, whatever its case; nil for any.
    package var text: String?
    /// Only letters that died at or after are counted.
    package var since: Timestamp?
    /// Only letters that died before are counted.
    package var until: Timestamp?

    package init() {}

    package init(handler: String) { self.handler = handler }

    /// Whether ``text`` is in a group's names, as a reader may see them: no statement compares it with what is hidden.
    package func finds(_ group: DeadLetterGroup) -> Bool {
        guard let text = text?.lowercased() else { return true }
        return group.handler.lowercased().contains(text) || group.group.lowercased().contains(text)
    }
}

/// A delivery that was given up.
package struct DeadLetter: Sendable {
    package var handler: String
    package var messageKey: MessageKey
    package var receivedAt: Timestamp
    package var diedAt: Timestamp
    package var attempts: Int
    package var group: String
    /// The error of the last attempt.
    package var error: String
    /// The message's category; nil if the message is gone.
    package var category: String?
    /// The replay that queued the delivery; nil for a first one.
    package var replayID: Digest128?

    /// Its position in the order of dead letters.
    package var cursor: DeadLetterCursor {
        DeadLetterCursor(diedAt: diedAt, messageKey: messageKey, handler: handler)
    }
}

/// Dead letters with the same failure.
package struct DeadLetterGroup: Sendable {
    package var handler: String
    package var group: String
    package var count: Int
    package var first: Timestamp
    package var last: Timestamp
    /// The limit of its count; nil without one.
    package var countedTo: Int?
}

package struct DeadLetters: Sendable {
    /// The most groups that are ranked: beyond, each letter has its own, and the first by name stand for all.
    package static let mostRanked = 5_000

    package let connection: PostgresConnection

    package init(_ connection: PostgresConnection) {
        self.connection = connection
    }

    /// A filter without what dies from now on, by the database's clock: the same for all batches that follow.
    package func frozen(_ filter: DeadLetterFilter) async throws(PostgresError) -> DeadLetterFilter {
        let now = try await connection.databaseTime()
        var filter = filter
        filter.until = min(filter.until ?? now, now)
        return filter
    }

    /// A page of at most `limit` dead letters after a cursor, latest first.
    package func list(
        _ filter: DeadLetterFilter,
        after cursor: DeadLetterCursor? = nil,
        limit: Int
    ) async throws(PostgresError) -> [DeadLetter] {
        let sql = DeadLetterStatements.list(filter, after: cursor, limit: limit)
        return try await connection.result(of: sql).rows(DeadLetter.init)
    }

    /// The groups, largest first.
    package func groups(_ filter: DeadLetterFilter) async throws(PostgresError) -> [DeadLetterGroup] {
        try await groups(DeadLetterStatements.groups(filter))
    }

    /// The existing groups at a cost that does not grow with the number of dead letters: those of the last hour first, then
    /// the largest.
    ///
    /// The filter's text is left to ``DeadGroupFilter/finds(_:)``. A count that equals the limit is a lower bound.
    package func summary(
        _ filter: DeadGroupFilter = DeadGroupFilter(),
        groups: Int = DeadLetters.mostRanked,
        counted limit: Int = 10_000
    ) async throws(PostgresError) -> [DeadLetterGroup] {
        let sql = DeadLetterStatements.summary(filter, groups: groups, counted: limit)
        return try await self.groups(sql, countedTo: limit)
    }

    private func groups(_ sql: SQL, countedTo limit: Int? = nil) async throws(PostgresError) -> [DeadLetterGroup] {
        try await connection.result(of: sql).rows {
            DeadLetterGroup(handler: $0, group: $1, count: $2, first: $3, last: $4, countedTo: limit)
        }
    }

    /// How many dead letters the filter selects.
    package func count(_ filter: DeadLetterFilter) async throws(PostgresError) -> Int {
        try await connection.result(of: DeadLetterStatements.count(filter)).value()
    }

    /// The action on dead letters.
    package enum Fate: Sendable {
        /// Queues them again, with a fresh count of attempts.
        case retry
        /// Deletes them; the messages stay.
        case discard

        /// The audit trail's name for it.
        package var action: AuditAction { self == .retry ? .retryDead : .discardDead }

        /// Applies it to the dead letters that a statement's part `gone` deletes and returns; returns how many.
        ///
        /// What is retried is due when `due` says, which may look at its row of `gone`.
        package func run(
            _ connection: isolated PostgresConnection,
            on gone: SQL,
            due: SQL = "now()"
        ) throws(PostgresError) -> Int {
            let count: Int = try connection.run(DeadLetterStatements.act(self, gone, due: due)).value()
            if self == .retry, count > 0 { connection.notifyAfterCommit(DeliveryBell.channel) }
            return count
        }
    }
}

/// A position in the order of dead letters; as text a time, a key and the handler, with slashes between.
package struct DeadLetterCursor: Sendable, Equatable, CustomStringConvertible {
    package var diedAt: Timestamp
    package var messageKey: MessageKey
    package var handler: String

    package var description: String { "\(diedAt.rfc3339)/\(messageKey)/\(handler)" }
}

extension DeadLetterCursor {
    /// Parses the text form; nil if it is not one.
    package init?(_ text: String) {
        guard let parts = CursorParts(text, times: 1) else { return nil }
        self.init(diedAt: parts.times[0], messageKey: parts.messageKey, handler: parts.handler)
    }
}

/// The parts of a cursor's text: times, a key and a handler, with slashes between.
struct CursorParts {
    let times: [Timestamp]
    let messageKey: MessageKey
    let handler: String

    init?(_ text: String, times count: Int) {
        let parts = text.split(separator: "/", maxSplits: count + 1, omittingEmptySubsequences: false).map(String.init)
        guard parts.count == count + 2, let key = MessageKey(parts[count]), let handler = parts.last,
            !handler.unicodeScalars.contains("\0")
        else { return nil }
        times = parts.prefix(count).compactMap { try? Timestamp(parsing: $0) }
        guard times.count == count else { return nil }
        (messageKey, self.handler) = (key, handler)
    }
}

package enum DeadLetterStatements {
    /// A filter's dead letters after a cursor, latest first.
    static func list(_ filter: DeadLetterFilter, after cursor: DeadLetterCursor? = nil, limit: Int) -> SQL {
        var condition = filter.condition
        if let cursor {
            // An index on died_at serves the plain bound.
            condition = """
                \(condition) AND died_at <= \(cursor.diedAt) AND (died_at, message_key, handler)
                    < (\(cursor.diedAt), \(cursor.messageKey.digest), \(cursor.handler))
                """
        }
        return """
            SELECT
                handler, message_key, received_at, died_at, attempts, error_group, coalesce(last_error, ''),
                (SELECT category FROM upstream.message_of(chosen.message_key, chosen.received_at)), replay_id
            FROM (
                SELECT * FROM upstream.dead_letters WHERE \(condition)
                ORDER BY died_at DESC, message_key DESC, handler DESC LIMIT \(limit)
            ) AS chosen
            ORDER BY died_at DESC, message_key DESC, handler DESC
            """
    }

    /// The groups with their counts up to a limit, found by skipping along the index: those that grew within the last
    /// hour first, then the largest, then the latest.
    ///
    /// The cost depends on the number of groups, not on that of dead letters. All are ranked before any is left out.
    static func summary(_ filter: DeadGroupFilter, groups: Int, counted limit: Int) -> SQL {
        let start: SQL = filter.handler.map { "WHERE handler = \($0)" } ?? ""
        // Equal in two columns and ordered by the third of one index, so that no other is walked with a filter (measured: 77 ms
        // instead of 2 s for 205 groups of 19,000 letters, by a comparison of rows).
        let inTime: SQL = .all([filter.since.map { "d.died_at >= \($0)" }, filter.until.map { "d.died_at < \($0)" }])
        let ofGroup: SQL = """
            d.handler = found.handler AND d.error_group = found.error_group AND \(inTime) ORDER BY d.died_at
            """
        let further: SQL = filter.handler.map { "d.handler = \($0) AND" } ?? ""
        return """
            WITH RECURSIVE found AS (
                (
                    SELECT handler, error_group FROM upstream.dead_letters \(start) ORDER BY handler, error_group LIMIT 1
                )
                UNION ALL
                SELECT next.handler, next.error_group FROM found CROSS JOIN LATERAL (
                    SELECT d.handler, d.error_group FROM upstream.dead_letters AS d
                    WHERE \(further) (d.handler, d.error_group) > (found.handler, found.error_group)
                    ORDER BY d.handler, d.error_group LIMIT 1
                ) AS next
            )
            SELECT * FROM (
                SELECT
                    handler, error_group,
                    (SELECT count(*) FROM (
                        SELECT FROM upstream.dead_letters AS d WHERE \(ofGroup) LIMIT \(limit)
                    ) AS counted) AS count,
                    (SELECT died_at FROM upstream.dead_letters AS d WHERE \(ofGroup) LIMIT 1),
                    (SELECT died_at FROM upstream.dead_letters AS d WHERE \(ofGroup) DESC LIMIT 1) AS latest
                FROM (SELECT * FROM found LIMIT \(DeadLetters.mostRanked)) AS found
            ) AS ranked
            WHERE count > 0
            ORDER BY latest > now() - interval '1 hour' DESC, count DESC, latest DESC, handler, error_group LIMIT \(groups)
            """
    }

    /// Counts by handler and group, largest first.
    static func groups(_ filter: DeadLetterFilter) -> SQL {
        """
        SELECT handler, error_group, count(*), min(died_at), max(died_at)
        FROM upstream.dead_letters WHERE \(filter.condition)
        GROUP BY handler, error_group ORDER BY count(*) DESC, handler, error_group
        """
    }

    static func count(_ filter: DeadLetterFilter) -> SQL {
        "SELECT count(*) FROM upstream.dead_letters WHERE \(filter.condition)"
    }

    /// Inserts the rows deleted by the part `ended`, with `counted`, `failure` and `failure_group`, as dead letters.
    static let bury = """
        INSERT INTO upstream.dead_letters (
            handler, message_key, received_at, attempts, next_attempt_at, lease_owner, lease_token, lease_until,
            last_error, replay_id, crashes, device_key, error_group
        )
        SELECT
            handler, message_key, received_at, attempts + counted, next_attempt_at, lease_owner, lease_token,
            lease_until, failure, replay_id, crashes, device_key, failure_group
        FROM ended
        ON CONFLICT (message_key, handler) DO UPDATE SET
            attempts = excluded.attempts, next_attempt_at = excluded.next_attempt_at,
            lease_owner = excluded.lease_owner, lease_token = excluded.lease_token,
            lease_until = excluded.lease_until, last_error = excluded.last_error, replay_id = excluded.replay_id,
            crashes = excluded.crashes, device_key = excluded.device_key, error_group = excluded.error_group,
            died_at = now()
        """

    /// Turns the rows deleted by the part `gone` into deliveries again, or drops them; returns how many.
    static func act(_ fate: DeadLetters.Fate, _ gone: SQL, due: SQL = "now()") -> SQL {
        switch fate {
        case .discard: "WITH \(gone) SELECT count(*) FROM gone"
        case .retry:
            """
            WITH \(gone), back AS (
                INSERT INTO upstream.deliveries (
                    handler, message_key, received_at, next_attempt_at, last_error, replay_id, device_key
                )
                SELECT handler, message_key, received_at, \(due), last_error, replay_id, device_key FROM gone
                ON CONFLICT DO NOTHING
            )
            SELECT count(*) FROM gone
            """
        }
    }

    /// The part `gone`: deletes some of a filter's dead letters, skipping locked ones; by handler the first to arrive, if
    /// ordered.
    static func gone(_ filter: DeadLetterFilter, limit: Int, isOrdered: Bool = false) -> SQL {
        let order: SQL = isOrdered ? "ORDER BY handler, received_at, message_key" : ""
        return """
            chosen AS MATERIALIZED (
                SELECT ctid AS place FROM upstream.dead_letters WHERE \(filter.condition)
                \(order) LIMIT \(limit) FOR UPDATE SKIP LOCKED
            ), gone AS (
                DELETE FROM upstream.dead_letters WHERE ctid IN (SELECT place FROM chosen) RETURNING *
            )
            """
    }

    /// When a row of the part `gone` is due: one after the other, by handler and then in the order that ordered handlers
    /// keep.
    package static func due(after time: Timestamp, _ rate: RetryRate) -> SQL {
        """
        \(time) + make_interval(
            secs => row_number() OVER (ORDER BY handler, received_at, message_key) / \("\(rate.perSecond)")::text::double precision)
        """
    }
}

extension DeadLetterFilter {
    /// The filter as a condition on rows of `dead_letters`; `true` if nothing narrows.
    ///
    /// `category` needs a lookup, so it comes last.
    package var condition: SQL {
        .all([
            handler.map { "handler = \($0)" },
            group.map { "error_group = \($0)" },
            messageKeys.isEmpty ? nil : "message_key = ANY (\(messageKeys.map(\.digest)))",
            since.map { "died_at >= \($0)" },
            until.map { "died_at < \($0)" },
            category.map {
                """
                EXISTS (
                    SELECT FROM upstream.message_of(dead_letters.message_key, dead_letters.received_at) AS m
                    WHERE m.category = \($0)
                )
                """
            },
        ])
    }
}
