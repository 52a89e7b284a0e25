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
        [
            handler.map { "handler \($0)" }, messageKey.map { "message \($0)" }, category.map { "category \($0)" },
            errorGroup.map { "group '\($0)'" }, since.map { "since \($0.rfc3339)" },
            until.map { "until \($0.rfc3339)" },
        ].compactMap { part in part.map { ", " + $0 } }.joined()
    }
}

/// Acts on waiting deliveries: makes them due at once, or gives them up.
///
/// Those held by a worker, by a lease or in a block, are left alone.
package struct WaitingDeliveries: Sendable {
    /// The error group of dead letters made by ``Act/cancel``.
    package static let cancelledGroup = "cancelled by operator"

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

        package var action: AuditAction { self == .retryNow ? .retryDeliveries : .cancelDeliveries }

        /// Acts on some of a filter's deliveries inside a transaction, without an audit entry; returns how many.
        func run(
            _ connection: isolated PostgresConnection,
            _ filter: WaitingFilter,
            limit: Int,
            by author: AuditAuthor
        ) throws(PostgresError) -> Int {
            switch self {
            case .retryNow:
                try connection.run(WaitingStatements.endHolds(filter))
                return try connection.run(WaitingStatements.retryNow(filter, limit: limit)).onlyRow {
                    (count: Int, _: Int) in count
                }
            case .cancel:
                let why = author.reason.map { ": \($0)" } ?? ""
                let error = "cancelled by \(author.name)\(why)"
                return try connection.run(WaitingStatements.cancel(filter, error: error, limit: limit)).value()
            }
        }
    }

    private let connection: PostgresConnection

    package init(_ connection: PostgresConnection) {
        self.connection = connection
    }

    /// A page of at most `limit` deliveries after a cursor, earliest due first.
    package func list(
        _ filter: WaitingFilter,
        after cursor: WaitingCursor? = nil,
        limit: Int
    ) async throws(PostgresError) -> [WaitingDelivery] {
        try await connection.result(of: WaitingStatements.page(filter, after: cursor, limit: limit))
            .rows(WaitingDelivery.init)
    }

    /// Counts a filter's deliveries.
    package func count(_ filter: WaitingFilter) async throws(PostgresError) -> Counts {
        try await connection.result(of: WaitingStatements.count(filter)).onlyRow(Counts.init)
    }
}
