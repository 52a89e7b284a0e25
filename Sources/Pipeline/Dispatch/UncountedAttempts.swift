import UpstreamKit
import Vocabulary

/// Which messages were handed back without counting an attempt, and how often, so that none is handed back for ever.
///
/// Kept in memory only: a worker that starts again begins to count anew, which costs a few tries more.
struct UncountedAttempts: Sendable {
    /// How many tries of one message are not counted; the next one is.
    static let limit = 3

    /// How many messages are remembered; beyond it all are forgotten.
    static let capacity = 4_096

    private struct Entry: Sendable {
        var count: Int
        /// What ``handled`` was at the last of them.
        var handled: Int
    }

    private var entries: [Digest128: Entry] = [:]
    /// How many messages of the handler were handled so far.
    private var handled = 0

    /// The handler has taken a message, or said something about it.
    mutating func answered(_ key: Digest128) {
        handled += 1
        entries[key] = nil
    }

    /// The handler could not work on a message at all.
    ///
    /// - Returns: Whether the attempt is to be counted, as the handler took other messages between the tries of this one.
    mutating func unavailable(_ key: Digest128) -> Bool {
        var entry = entries[key] ?? Entry(count: 0, handled: -1)
        if entry.handled < handled { entry.count += 1 }
        return note(key, entry)
    }

    /// The handler was cut off while it had the message.
    ///
    /// - Returns: Whether the attempt is to be counted: an outage doesn't hit the same message again and again.
    mutating func interrupted(_ key: Digest128) -> Bool {
        var entry = entries[key] ?? Entry(count: 0, handled: -1)
        entry.count += 1
        return note(key, entry)
    }

    private mutating func note(_ key: Digest128, _ entry: Entry) -> Bool {
        if entries.count >= Self.capacity, entries[key] == nil { entries = [:] }
        entries[key] = Entry(count: min(entry.count, Self.limit + 1), handled: handled)
        return entry.count > Self.limit
    }
}
