package import Vocabulary

/// A row's new value; nil deletes it.
enum Change: Sendable {
    case message(Digest128, MessageRow?)
    case conflict(ConflictKey, OddRow?)
    case quarantine(QuarantineKey, OddRow?)
    case handler(String, HandlerRow?)
    case registration(RegistrationKey, RegistrationRow?)
    /// Whether the handler is ordered.
    case subscription(SubscriptionKey, SubscriptionRow?)
    case delivery(DeliveryKey, DeliveryRow?)
    case block(BlockKey, BlockRow?)
    case deadLetter(DeliveryKey, DeadLetterRow?)
    /// How often a SQL function has had its effect.
    case effect(DeliveryKey, Int?)
    /// Up to where the log has the sequence of tokens.
    case tokens(Int64)
}

/// What a transaction may lock.
enum LockKey: Hashable, Sendable {
    case message(Digest128)
    case conflict(ConflictKey)
    case quarantine(QuarantineKey)
    case handler(String)
    case registration(RegistrationKey)
    case subscription(SubscriptionKey)
    case delivery(DeliveryKey)
    case block(BlockKey)
    case deadLetter(DeliveryKey)
    /// The advisory lock of an ordered handler's claims.
    case claims(String)
}

extension Change {
    /// The row that it locks; nil for what no other transaction waits for.
    var lock: LockKey? {
        switch self {
        case .message(let key, _): .message(key)
        case .conflict(let key, _): .conflict(key)
        case .quarantine(let key, _): .quarantine(key)
        case .handler(let key, _): .handler(key)
        case .registration(let key, _): .registration(key)
        case .subscription(let key, _): .subscription(key)
        case .delivery(let key, _): .delivery(key)
        case .block(let key, _): .block(key)
        case .deadLetter(let key, _): .deadLetter(key)
        case .effect, .tokens: nil
        }
    }
}

/// A handler's deliveries.
package struct DeliveryQueue: Sendable {
    package internal(set) var rows: [Digest128: DeliveryRow] = [:]
    /// No row can be claimed before this time: an idle handler's polls don't look at what is leased.
    var earliest = Int64.max
}

/// The committed rows.
package struct Tables: Sendable {
    package internal(set) var messages: [Digest128: MessageRow] = [:]
    package internal(set) var conflicts: [ConflictKey: OddRow] = [:]
    package internal(set) var quarantine: [QuarantineKey: OddRow] = [:]
    package internal(set) var handlers: [String: HandlerRow] = [:]
    package internal(set) var registrations: [RegistrationKey: RegistrationRow] = [:]
    package internal(set) var subscriptions: [SubscriptionKey: SubscriptionRow] = [:]
    package internal(set) var queues: [String: DeliveryQueue] = [:]
    package internal(set) var blocks: [BlockKey: BlockRow] = [:]
    package internal(set) var deadLetters: [DeliveryKey: DeadLetterRow] = [:]
    /// How often SQL functions have had their effect on each message.
    package internal(set) var effects: [DeliveryKey: Int] = [:]
    /// Up to where the log has the sequence of tokens: what a server that takes over goes on from.
    var loggedTokens: Int64 = 0

    /// Makes a change and returns the one that takes it back.
    mutating func apply(_ change: Change) -> Change {
        switch change {
        case .message(let key, let row): return .message(key, swap(&messages[key], row))
        case .conflict(let key, let row): return .conflict(key, swap(&conflicts[key], row))
        case .quarantine(let key, let row): return .quarantine(key, swap(&quarantine[key], row))
        case .handler(let key, let row): return .handler(key, swap(&handlers[key], row))
        case .registration(let key, let row): return .registration(key, swap(&registrations[key], row))
        case .subscription(let key, let row): return .subscription(key, swap(&subscriptions[key], row))
        case .delivery(let key, let row):
            if let row { queues[key.handler, default: DeliveryQueue()].note(row) }
            return .delivery(key, swap(&queues[key.handler, default: DeliveryQueue()].rows[key.message], row))
        case .block(let key, let row): return .block(key, swap(&blocks[key], row))
        case .deadLetter(let key, let row): return .deadLetter(key, swap(&deadLetters[key], row))
        case .effect(let key, let count): return .effect(key, swap(&effects[key], count))
        case .tokens(let number):
            defer { loggedTokens = number }
            return .tokens(loggedTokens)
        }
    }

    private func swap<Row>(_ place: inout Row?, _ row: Row?) -> Row? {
        defer { place = row }
        return place
    }
}

extension DeliveryQueue {
    fileprivate mutating func note(_ row: DeliveryRow) { earliest = min(earliest, row.claimableAt) }
}
