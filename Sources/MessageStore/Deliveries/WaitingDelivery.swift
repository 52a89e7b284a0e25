package import Postgres
package import UpstreamKit
package import Vocabulary

/// An unfinished delivery, and why it waits.
package struct WaitingDelivery: Sendable {
    /// The reason for waiting, from a closed set.
    package enum Reason: String, Sendable, CaseIterable {
        /// A worker holds it.
        case leased
        /// The handler is paused.
        case paused
        /// The handler asked for a pause.
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
    /// When the pause that the handler asked for ends; nil without one.
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

    init(dueAt: Timestamp, receivedAt: Timestamp, messageKey: MessageKey, handler: String) {
        (self.dueAt, self.receivedAt, self.messageKey, self.handler) = (dueAt, receivedAt, messageKey, handler)
    }

    /// Parses the text form; nil if it is not one.
    package init?(_ text: String) {
        let parts = text.split(separator: "/", maxSplits: 3, omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 4, let due = try? Timestamp(parsing: parts[0]),
            let received = try? Timestamp(parsing: parts[1]), let key = MessageKey(parts[2]),
            !parts[3].unicodeScalars.contains("\0")
        else { return nil }
        self.init(dueAt: due, receivedAt: received, messageKey: key, handler: parts[3])
    }

    package var description: String { "\(dueAt.rfc3339)/\(receivedAt.rfc3339)/\(messageKey)/\(handler)" }
}

/// A query for waiting deliveries, in pages, earliest due first.
package struct WaitingQuery: Sendable {
    package var filter = WaitingFilter()
    /// The position after which the page begins; nil for the first page.
    package var cursor: WaitingCursor?
    package var limit = 50

    package init() {}

    package var handler: String? {
        get { filter.handler }
        set { filter.handler = newValue }
    }

    /// Runs the query.
    package func rows(_ connection: PostgresConnection) async throws(PostgresError) -> [WaitingDelivery] {
        let sql = WaitingStatements.page(self)
        return try await connection.run { connection throws(PostgresError) in
            try connection.run(sql).map(WaitingDelivery.init)
        }
    }
}

extension WaitingDelivery {
    /// Reads a row of ``WaitingStatements/page(_:)``.
    fileprivate init(_ row: inout PostgresRow) throws(PostgresError) {
        handler = try row.next()
        messageKey = MessageKey(try row.next(Digest128.self))
        receivedAt = try row.next()
        attempts = try row.next()
        dueAt = try row.next()
        let owner = try row.next(String?.self)
        let until = try row.next(Timestamp?.self)
        let isHeld = try row.next(Bool?.self) ?? false && owner != nil
        let isAhead = try row.next(Bool.self)
        (leaseOwner, leaseUntil) = isHeld ? (owner, until) : (nil, nil)
        error = try row.next()
        replayID = try row.next()
        isInBlock = try row.next()
        let isPaused = try row.next(Bool?.self) ?? false
        let (pauseEnd, pauseReason) = (try row.next(Timestamp?.self), try row.next(String?.self))
        (pausedUntil, pausedReason) = isPaused ? (pauseEnd, pauseReason) : (nil, nil)
        let isClaimed = try row.next(Bool?.self) ?? false
        heldUntil = try row.next()
        let answer = try row.next(String?.self)
        heldReason = heldUntil == nil ? nil : answer
        // Otherwise it waits for its own next attempt, which is later.
        let waitsForHold = if let heldUntil { heldUntil >= dueAt } else { false }
        category = try row.next()
        errorGroup = try row.next()
        reason =
            if isHeld { .leased } else if isPaused { .paused } else if waitsForHold { .held } else if isAhead {
                attempts > 0 ? .retry : .postponed
            } else {
                isClaimed ? .due : .unclaimed
            }
    }
}
