package import Postgres
package import UpstreamKit
package import Vocabulary

/// An unfinished delivery, and why it waits.
package struct WaitingDelivery: Sendable {
    /// The reason for waiting, from a closed set.
    package enum Reason: String, SQLDecodable, Sendable, CaseIterable {
        /// A worker holds it.
        case leased
        /// The handler is paused.
        case paused
        /// The handler asked for a pause, or its circuit is open.
        case held
        /// The latest attempt failed, and the next is not due yet.
        case retry
        /// Released without a failed attempt and not due yet: a circuit breaker, a stopping worker.
        case postponed
        /// Due, but no live worker runs the handler.
        case unclaimed
        /// Due; a worker will take it in its turn.
        case due
    }

    package var handler: String
    package var messageKey: MessageKey
    package var receivedAt: Timestamp
    /// Failed attempts that count.
    package var attempts: Int
    /// When the next attempt is due; the lease's end for what a worker holds.
    package var dueAt: Timestamp
    /// The worker that holds it; nil for none.
    package var leaseOwner: String?
    /// When the lease ends unless it is renewed; nil without one.
    package var leaseUntil: Timestamp?
    /// The error of the latest attempt.
    package var error: String?
    /// The replay that queued it; nil for a first delivery.
    package var replayID: Digest128?
    /// Whether it is in a block: in the memory of the worker that stored its message.
    package var isInBlock: Bool
    package var reason: Reason
    /// When the handler's pause ends by itself; nil if it is not paused, or until resumed.
    package var pausedUntil: Timestamp?
    package var pausedReason: String?
    /// When the pause that the handler asked for ends, or an open circuit may be probed; nil without one, or once it may.
    package var heldUntil: Timestamp?
    /// The handler's reason for that pause.
    package var heldReason: String?
    /// The message's category; nil if the message is gone.
    package var category: String?
    /// The latest failure's group; nil without one, or if the history of attempts does not reach back to it.
    package var errorGroup: String?

    /// Its position in the order of deliveries.
    package var cursor: WaitingCursor {
        WaitingCursor(dueAt: dueAt, receivedAt: receivedAt, messageKey: messageKey, handler: handler)
    }
}

/// A position in the order of waiting deliveries; as text two times, a key and the handler, with slashes between.
package struct WaitingCursor: Sendable, Equatable, CustomStringConvertible {
    package var dueAt: Timestamp
    package var receivedAt: Timestamp
    package var messageKey: MessageKey
    package var handler: String

    package var description: String { "\(dueAt.rfc3339)/\(receivedAt.rfc3339)/\(messageKey)/\(handler)" }
}

extension WaitingCursor {
    /// Parses the text form; nil if it is not one.
    package init?(_ text: String) {
        guard let parts = CursorParts(text, times: 2) else { return nil }
        (dueAt, receivedAt) = (parts.times[0], parts.times[1])
        (messageKey, handler) = (parts.messageKey, parts.handler)
    }
}

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
    /// When they were counted: only what is as it was then is cancelled.
    package var count: WaitingCount?

    package init() {}
}

/// A count of deliveries; as text its time and what it saw, with a slash between.
package struct WaitingCount: Sendable, Equatable, CustomStringConvertible {
    package var at: Timestamp
    /// What it saw, as `pg_snapshot` has it; nil where only its time is known.
    package var snapshot: String?

    package init(at: Timestamp, snapshot: String?) { (self.at, self.snapshot) = (at, snapshot) }

    /// Parses the text form; nil if it is not one.
    package init?(_ text: String) {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let at = try? Timestamp(parsing: String(parts[0])) else { return nil }
        self.init(at: at, snapshot: parts.count > 1 ? String(parts[1]) : nil)
    }

    package var description: String { at.rfc3339 + (snapshot.map { "/" + $0 } ?? "") }
}

extension WaitingFilter: CustomStringConvertible {
    /// The conditions as text, each after a comma; empty without conditions.
    package var description: String {
        [
            handler.map { "handler \($0)" }, messageKey.map { "message \($0)" }, category.map { "category \($0)" },
            errorGroup.map { "group '\($0)'" }, since.map { "since \($0.rfc3339)" },
            until.map { "until \($0.rfc3339)" },
        ].afterCommas
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
        /// What the count saw, as `pg_snapshot` has it.
        package var snapshot: String
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
                let count: Int = try connection.run(WaitingStatements.retryNow(filter, limit: limit)).value()
                if count > 0 { connection.notifyAfterCommit(DeliveryBell.channel) }
                return count
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
        let rows = try await connection.result(of: WaitingStatements.page(filter, after: cursor, limit: limit))
            .rows(WaitingDelivery.init)
        guard rows.contains(where: { $0.reason == .due }) else { return rows }
        let (workers, now) = try await HandlerBreaker.workers(connection)
        let breakers = HandlerBreaker.of(workers, now: now)
        return rows.map { $0.held(by: breakers[$0.handler], now: now) }
    }

    /// Why none of a filter's deliveries could be made due, in words; the counts stop at 10,000.
    package static func whyUnmoved(
        _ connection: isolated PostgresConnection,
        _ filter: WaitingFilter
    ) throws(PostgresError) -> String {
        let (due, held, paused) = try connection.run(WaitingStatements.unmoved(filter)).onlyRow {
            (due: Int, held: Int, paused: Int) in (due, held, paused)
        }
        func some(_ count: Int) -> String { Amount.count(count) + (count >= WaitingStatements.countLimit ? "+" : "") }
        var parts: [String] = []
        if due > 0 { parts.append("\(some(due)) are due already and wait for their turn") }
        if held > 0 { parts.append("\(some(held)) are in a worker's hands") }
        if paused > 0 { parts.append("the handler is paused: resume it") }
        guard !parts.isEmpty else { return "Nothing waits." }
        return "Nothing moved: " + parts.joined(separator: "; ") + ". Open circuits and holds have ended."
    }

    /// Counts a filter's deliveries by who holds them at a time, which is about now.
    package func count(_ filter: WaitingFilter, at time: Timestamp) async throws(PostgresError) -> Counts {
        try await connection.run { connection throws(PostgresError) in try Self.count(connection, filter, at: time) }
    }

    package static func count(
        _ connection: isolated PostgresConnection,
        _ filter: WaitingFilter,
        at time: Timestamp
    ) throws(PostgresError) -> Counts {
        try connection.run(WaitingStatements.count(filter, at: time)).onlyRow(Counts.init)
    }
}
