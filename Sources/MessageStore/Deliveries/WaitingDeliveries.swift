package import Postgres
package import UpstreamKit
package import Vocabulary

/// Which waiting deliveries; what is nil does not narrow.
package struct WaitingFilter: Sendable, Equatable {
    /// The handler's name.
    package var handler: String?
    /// One message.
    package var messageKey: MessageKey?
    /// The message's category.
    package var category: String?
    /// The message was received at or after.
    package var since: Timestamp?
    /// The message was received before.
    package var until: Timestamp?
    /// The group of the latest failure, by the history of attempts.
    package var errorGroup: String?

    package init() {}
}

extension WaitingFilter: CustomStringConvertible {
    /// The conditions for people, each after a comma; empty where nothing narrows.
    package var description: String {
        var parts: [String] = []
        if let handler { parts.append("handler \(handler)") }
        if let messageKey { parts.append("message \(messageKey)") }
        if let category { parts.append("category \(category)") }
        if let errorGroup { parts.append("group '\(errorGroup)'") }
        if let since { parts.append("since \(since.rfc3339)") }
        if let until { parts.append("until \(until.rfc3339)") }
        return parts.map { ", " + $0 }.joined()
    }
}

/// Acts on deliveries that wait: makes them due at once, or gives them up.
///
/// What a worker has in hand, by a lease or in a block, is left alone.
package struct WaitingDeliveries: Sendable {
    /// The error group of dead letters that ``cancel(_:_:limit:by:)`` makes.
    package static let cancelledGroup = "cancelled by operator"
    /// The most deliveries of one transaction.
    package static let batch = 10_000

    /// How many deliveries of a filter there are.
    package struct Counts: Sendable, Equatable {
        /// No worker holds them.
        package var free: Int
        /// Of these, those that are not due yet.
        package var later: Int
        /// A worker has them in hand.
        package var held: Int
    }

    /// What is done to them.
    package enum Act: Sendable {
        /// They become due at once; what their handlers asked for (`Retry-After`) ends, and circuit breakers close.
        case retryNow
        /// They become dead letters.
        case cancel

        /// What the audit trail calls it.
        package var action: AuditAction {
            switch self {
            case .retryNow: .retryDeliveries
            case .cancel: .cancelDeliveries
            }
        }
    }

    private let connection: PostgresConnection

    /// The deliveries of the database that the connection leads to.
    package init(_ connection: PostgresConnection) {
        self.connection = connection
    }

    /// The database's clock.
    ///
    /// - Throws: ``PostgresError``
    package func now() async throws(PostgresError) -> Timestamp {
        try await connection.run { connection throws(PostgresError) in
            try connection.run(WaitingStatements.now).value()
        }
    }

    /// Counts what a filter lets through.
    ///
    /// - Throws: ``PostgresError``
    package func count(_ filter: WaitingFilter) async throws(PostgresError) -> Counts {
        try await connection.run { connection throws(PostgresError) in
            try connection.run(WaitingStatements.count(filter)).only { row throws(PostgresError) in
                Counts(free: try row.next(), later: try row.next(), held: try row.next())
            }
        }
    }

    /// Acts on deliveries of a filter, in transactions of ``batch`` each, and records it: with the first transaction, with
    /// the number that it is about, and, where there were several, at the end with the number that were done.
    ///
    /// - Parameters:
    ///   - act: What is done.
    ///   - filter: Which.
    ///   - total: How many there were when it was asked for; never more are done.
    ///   - author: Who, and why.
    ///   - report: Is told how many are done.
    /// - Throws: ``PostgresError``; what was done before stays done.
    /// - Returns: How many were done; fewer than `total` where workers, or other sessions, took some meanwhile.
    package func run(
        _ act: Act,
        _ filter: WaitingFilter,
        total: Int,
        by author: AuditAuthor,
        report: @Sendable (Int) -> Void = { _ in }
    ) async throws(PostgresError) -> Int {
        var (done, batches) = (0, 0)
        let subject = "deliveries" + filter.description
        // Once in any case: a hold ends also where all that waits is due.
        repeat {
            let (isFirst, limit) = (batches == 0, min(Self.batch, total - done))
            let count = try await connection.run { connection throws(PostgresError) in
                try connection.transaction { connection throws(PostgresError) in
                    let count = try Self.step(connection, act, filter, limit: limit, by: author)
                    if isFirst, count > 0 {
                        let meant = count < limit ? count : total
                        try AuditLog.record(connection, act.action, subject, count: meant, by: author)
                    }
                    return count
                }
            }
            if count > 0 { batches += 1 }
            done += count
            report(done)
            // A batch is short where another session has rows of it locked just then, and the next one may find more.
            if count == 0 { break }
        } while done < total
        if batches > 1 {
            try await AuditLog.record(over: connection, act.action, subject, count: done, by: author, isEnd: true)
        }
        return done
    }

    /// Acts on some deliveries of a filter, inside a transaction; records nothing.
    ///
    /// - Throws: ``PostgresError``
    /// - Returns: How many.
    package static func step(
        _ connection: isolated PostgresConnection,
        _ act: Act,
        _ filter: WaitingFilter,
        limit: Int,
        by author: AuditAuthor
    ) throws(PostgresError) -> Int {
        switch act {
        case .retryNow:
            try connection.run(WaitingStatements.endHolds(filter))
            return try connection.run(WaitingStatements.retryNow(filter, limit: limit)).only {
                row throws(PostgresError) in
                let count = try row.next(Int.self)
                row.skipRest()
                return count
            }
        case .cancel:
            let why = author.reason.map { ": \($0)" } ?? ""
            let error = "cancelled by \(author.name)\(why)"
            return try connection.run(WaitingStatements.cancel(filter, error: error, limit: limit)).value()
        }
    }
}
