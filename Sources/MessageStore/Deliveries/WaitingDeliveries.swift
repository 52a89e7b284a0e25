package import Postgres
package import UpstreamKit
package import Vocabulary

/// Selects waiting deliveries; nil members select all.
package struct WaitingFilter: Sendable, Equatable {
    package var handler: String?
    package var messageKey: MessageKey?
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
    /// The conditions as text, each after a comma; empty without conditions.
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

/// Acts on waiting deliveries: makes them due at once, or gives them up.
///
/// Those held by a worker, by a lease or in a block, are left alone.
package struct WaitingDeliveries: Sendable {
    /// The error group of dead letters made by ``cancel(_:_:limit:by:)``.
    package static let cancelledGroup = "cancelled by operator"
    /// The most deliveries of one transaction.
    package static let batch = 10_000

    package struct Counts: Sendable, Equatable {
        /// Held by no worker.
        package var free: Int
        /// Of these, not due yet.
        package var later: Int
        /// Held by a worker.
        package var held: Int
    }

    package enum Act: Sendable {
        /// Makes them due at once, ends what their handlers asked for (`Retry-After`), and closes circuit breakers.
        case retryNow
        /// Makes them dead letters.
        case cancel

        package var action: AuditAction {
            switch self {
            case .retryNow: .retryDeliveries
            case .cancel: .cancelDeliveries
            }
        }
    }

    private let connection: PostgresConnection

    package init(_ connection: PostgresConnection) {
        self.connection = connection
    }

    package func now() async throws(PostgresError) -> Timestamp {
        try await connection.run { connection throws(PostgresError) in
            try connection.run(WaitingStatements.now).value()
        }
    }

    package func count(_ filter: WaitingFilter) async throws(PostgresError) -> Counts {
        try await connection.run { connection throws(PostgresError) in
            try connection.run(WaitingStatements.count(filter)).only { row throws(PostgresError) in
                Counts(free: try row.next(), later: try row.next(), held: try row.next())
            }
        }
    }

    /// Acts on a filter's deliveries in transactions of ``batch`` each, with audit entries.
    ///
    /// The first transaction records the total; after several, the end records how many were done. Never more than
    /// `total` are done; fewer if workers or other sessions took some meanwhile. `report` receives the number done so
    /// far.
    ///
    /// - Throws: ``PostgresError``; what was done before stays done.
    package func run(
        _ act: Act,
        _ filter: WaitingFilter,
        total: Int,
        by author: AuditAuthor,
        report: @Sendable (Int) -> Void = { _ in }
    ) async throws(PostgresError) -> Int {
        var (done, batches) = (0, 0)
        let subject = "deliveries" + filter.description
        // At least once: a hold ends even if everything is due.
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
            // A batch is short if another session has locked some of its rows, and the next one may find more.
            if count == 0 { break }
        } while done < total
        if batches > 1 {
            try await AuditLog.record(over: connection, act.action, subject, count: done, by: author, isEnd: true)
        }
        return done
    }

    /// Acts on some of a filter's deliveries inside a transaction, without an audit entry; returns how many.
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
