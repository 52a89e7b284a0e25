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
        var parts: [String] = []
        if let handler { parts.append("handler \(handler)") }
        if let group { parts.append("group '\(group)'") }
        if let category { parts.append("category \(category)") }
        if let messageKey { parts.append("message \(messageKey)") }
        if let since { parts.append("since \(since.rfc3339)") }
        if let until { parts.append("until \(until.rfc3339)") }
        return parts.map { ", " + $0 }.joined()
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
    ///
    /// - Throws: ``PostgresError``
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
        return try await connection.run { connection throws(PostgresError) in
            try connection.run(sql).map { row throws(PostgresError) in
                DeadLetter(
                    handler: try row.next(),
                    messageKey: MessageKey(try row.next()),
                    receivedAt: try row.next(),
                    diedAt: try row.next(),
                    attempts: try row.next(),
                    group: try row.next(),
                    error: try row.next(),
                    category: try row.next(),
                    replayID: try row.next()
                )
            }
        }
    }

    /// The groups, largest first.
    package func groups(_ filter: DeadLetterFilter) async throws(PostgresError) -> [DeadLetterGroup] {
        try await connection.run { connection throws(PostgresError) in
            try connection.run(DeadLetterStatements.groups(filter)).map(DeadLetterGroup.init)
        }
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
        var found = try await connection.run { connection throws(PostgresError) in
            try connection.run(sql).map(DeadLetterGroup.init)
        }
        for index in found.indices { found[index].countedTo = limit }
        return found.sorted { ($1.count, $0.handler, $0.group) < ($0.count, $1.handler, $1.group) }
    }

    /// How many dead letters the filter selects.
    package func count(_ filter: DeadLetterFilter) async throws(PostgresError) -> Int {
        try await connection.run { connection throws(PostgresError) in
            try connection.run(DeadLetterStatements.count(filter)).value()
        }
    }

    /// The action on dead letters.
    package enum Fate: Sendable {
        /// Queues them again, with a fresh count of attempts.
        case retry
        /// Deletes them; the messages stay.
        case discard

        /// The audit trail's name for it.
        package var action: AuditAction {
            switch self {
            case .retry: .retryDead
            case .discard: .discardDead
            }
        }

        /// Applies it to the dead letters that a statement's part `gone` deletes and returns; returns how many.
        package func run(_ connection: isolated PostgresConnection, on gone: SQL) throws(PostgresError) -> Int {
            try connection.run(DeadLetterStatements.act(self, gone)).only { row throws(PostgresError) in
                defer { row.skipRest() }
                return try row.next(Int.self)
            }
        }
    }
}

/// A position in the order of dead letters; as text a time, a key and the handler, with slashes between.
package struct DeadLetterCursor: Sendable, Equatable, CustomStringConvertible {
    package var diedAt: Timestamp
    package var messageKey: MessageKey
    package var handler: String

    init(diedAt: Timestamp, messageKey: MessageKey, handler: String) {
        (self.diedAt, self.messageKey, self.handler) = (diedAt, messageKey, handler)
    }

    /// Parses the text form; nil if it is not one.
    package init?(_ text: String) {
        let parts = text.split(separator: "/", maxSplits: 2, omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 3, let time = try? Timestamp(parsing: parts[0]), let key = MessageKey(parts[1]),
            !parts[2].unicodeScalars.contains("\0")
        else { return nil }
        self.init(diedAt: time, messageKey: key, handler: parts[2])
    }

    package var description: String { "\(diedAt.rfc3339)/\(messageKey)/\(handler)" }

    static let sample = DeadLetterCursor(
        diedAt: Timestamp(microseconds: 0),
        messageKey: MessageKey(Digest128(high: 0, low: 0)),
        handler: "orders"
    )
}

extension DeadLetterGroup {
    /// Reads a row of ``DeadLetterStatements/groups(_:)``, or of its bounded form.
    fileprivate init(_ row: inout PostgresRow) throws(PostgresError) {
        handler = try row.next()
        group = try row.next()
        count = try row.next()
        first = try row.next()
        last = try row.next()
    }
}
