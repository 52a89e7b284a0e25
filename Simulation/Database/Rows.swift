import Dispatcher
package import UpstreamKit
package import Vocabulary

/// What a delivery is about: a message, kept for as long as a row refers to it.
package final class StoredBody: Sendable {
    package let message: IncomingMessage
    package let senderID: String

    init(_ message: borrowing IncomingMessage, senderID: String) {
        self.message = message.detached()
        self.senderID = senderID
    }

    /// The message as a handler gets it; nil if it is not whole.
    package var upstream: UpstreamMessage? { UpstreamMessage(message, senderID: senderID) }

    /// The estimated memory by which claims are limited, as the statements estimate it.
    var size: Int { 1_000 + Int(message.data?.count ?? 0) + Int(message.extra?.count ?? 0) }
}

/// A row of `message_ids` with its row of `messages`: they are stored together, and nothing here drops one of them.
package struct MessageRow: Sendable {
    package var fingerprint: Digest128
    /// In microseconds since 1970-01-01 UTC, as all times of rows.
    package var receivedAt: Int64
    package var deviceKey: Digest128
    /// Nil where no replay is to send it again.
    package var body: StoredBody?
}

package struct ConflictKey: Hashable, Sendable {
    package var message: Digest128
    package var fingerprint: Digest128
}

package struct QuarantineKey: Hashable, Sendable {
    package var senderID: String
    package var digest: [UInt8]

    package init(senderID: String, digest: [UInt8]) { (self.senderID, self.digest) = (senderID, digest) }
}

/// A row of `conflicts` or `quarantine`.
package struct OddRow: Sendable {
    package var body: StoredBody
    package var timesSeen: Int64
    package var receivedAt: Int64
    package var lastSeenAt: Int64
}

package struct HandlerRow: Sendable {
    package var isPaused = false
    package var pauseReason: String?
    package var seenAt: Int64
    package var heldUntil: Int64?
    package var holdReason: String?
    package var resumedAt: Int64?
    package var isCircuitOpen: Bool?
    package var circuitChangedAt: Int64?
    package var circuitToken: Int64?
}

package struct RegistrationKey: Hashable, Sendable {
    package var token: Int64
    package var handler: String
}

/// A row of `handler_workers`.
package struct RegistrationRow: Sendable {
    package var worker: String
    package var categories: [String]
    package var isByDevice: Bool
    package var filter: String?
    package var aliveSince: Int64
    package var heartbeatAt: Int64
    /// Its share of the handler's limit over all workers, the greatest it could use, and until when it has it.
    package var share = 0.0
    package var shareMost = 0.0
    package var shareUntil: Int64?

    /// Whether it asks for a category.
    func asks(for category: String) -> Bool { categories.contains { SubscriptionKey.isMatch($0, category) } }
}

package struct SubscriptionKey: Hashable, Sendable {
    package var handler: String
    package var category: String

    /// Whether a category belongs to a subscription's name, prefix or star.
    static func isMatch(_ entry: String, _ category: String) -> Bool {
        entry.hasSuffix("*") ? category.hasPrefix(entry.dropLast()) : entry == category
    }
}

/// A row of `subscriptions` without its key.
package struct SubscriptionRow: Equatable, Sendable {
    package var isByDevice: Bool
    /// The filters, of which one must hold; nil for every message.
    package var filters: Set<String>?
}

package struct DeliveryKey: Hashable, Sendable {
    package var handler: String
    package var message: Digest128

    package init(handler: String, message: Digest128) { (self.handler, self.message) = (handler, message) }
}

/// A row of `deliveries`.
package struct DeliveryRow: Sendable {
    package var body: StoredBody
    package var receivedAt: Int64
    package var nextAttemptAt: Int64
    package var attempts = 0
    package var crashes = 0
    package var lastError: String?
    /// The device if the handler is ordered.
    package var device: Digest128?
    package var owner: String?
    package var token: Int64 = 0
    package var leaseUntil: Int64?
    /// Whether a replay has queued it.
    package var isReplayed = false

    /// Whether a claim may take it at that time.
    func isFree(at now: Int64) -> Bool { leaseUntil.map { $0 <= now } ?? true }

    /// When a claim may take it, if nothing changes.
    var claimableAt: Int64 { max(nextAttemptAt, leaseUntil ?? .min) }

    /// Workers in a row that died with it, if its lease is counted as one.
    var suspicion: Int { crashes + (owner == nil ? 0 : 1) }

    mutating func release(until next: Int64) { (nextAttemptAt, owner, leaseUntil) = (next, nil, nil) }
}

package struct BlockKey: Hashable, Sendable {
    package var token: Int64
    package var number: Int64
    package var handler: String
}

/// A row of `delivery_blocks`.
package struct BlockRow: Sendable {
    package var owner: String
    package var leaseUntil: Int64
    package var bodies: [StoredBody]
}

/// A row of `dead_letters`.
package struct DeadLetterRow: Sendable {
    package var delivery: DeliveryRow
    package var failure: String
    package var group: String
    package var diedAt: Int64
}
