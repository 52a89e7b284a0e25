import Vocabulary

/// Counts releases of each message without a counted attempt, so that none is released for ever.
///
/// In memory only: after a restart the count begins again, which costs a few more attempts.
struct UncountedAttempts: Sendable {
    /// How many attempts at one message are not counted.
    static let limit = 3

    /// How many messages are remembered; beyond this, all are forgotten.
    static let capacity = 4_096

    private struct Entry: Sendable {
        var count: Int
        /// The value of ``handled`` at the last of them.
        var handled: Int
    }

    private var entries: [Digest128: Entry] = [:]
    private var handled = 0

    /// Records that the handler has answered about a message.
    mutating func answered(_ key: Digest128) {
        handled += 1
        if !entries.isEmpty { entries[key] = nil }
    }

    /// Records that the handler could not begin with a message.
    ///
    /// - Returns: Whether to count the attempt, as the handler took other messages between the attempts at this one.
    mutating func unavailable(_ key: Digest128) -> Bool {
        var entry = entries[key] ?? Entry(count: 0, handled: -1)
        if entry.handled < handled { entry.count += 1 }
        return note(key, entry)
    }

    /// Records that the handler was interrupted while it had the message.
    ///
    /// - Returns: Whether to count the attempt: an outage doesn't hit the same message again and again.
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
