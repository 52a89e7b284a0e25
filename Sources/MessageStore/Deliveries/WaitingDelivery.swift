import Postgres
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
