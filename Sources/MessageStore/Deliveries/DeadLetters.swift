package import Postgres
package import UpstreamKit
package import Vocabulary

/// Selects dead letters; nil members select all.
package struct DeadLetterFilter: Sendable {
    package var handler: String?
    package var group: String?
    package var category: String?
    package var messageKey: MessageKey?
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
            messageKey.map { "message \($0)" }, since.map { "since \($0.rfc3339)" },
            until.map { "until \($0.rfc3339)" },
        ].compactMap { part in part.map { ", " + $0 } }.joined()
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

    /// The existing groups, largest first, at a cost that does not grow with the number of dead letters.
    ///
    /// A nil `handler` means all. A count that equals the limit is a lower bound.
    package func summary(
        handler: String? = nil,
        groups: Int = 500,
        counted limit: Int = 10_000
    ) async throws(PostgresError) -> [DeadLetterGroup] {
        let sql = DeadLetterStatements.summary(handler: handler, groups: groups, counted: limit)
        return try await self.groups(sql, countedTo: limit)
            .sorted { ($1.count, $0.handler, $0.group) < ($0.count, $1.handler, $1.group) }
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
        package func run(_ connection: isolated PostgresConnection, on gone: SQL) throws(PostgresError) -> Int {
            try connection.run(DeadLetterStatements.act(self, gone)).onlyRow { (count: Int, _: Int) in count }
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
