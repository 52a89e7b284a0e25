/// Which messages wait for a plugin, and which of them go into one call.
///
/// Pure.
/// While a call is under way others collect for the next one; nothing waits for a timer. Messages that failed before, or were
/// in a call whose process ended, go one by one on a track of their own, so that a call that goes wrong then says which message
/// it was, and no message that never failed waits behind them.
struct PluginQueue: Sendable {
    /// Names a waiting message; never used again.
    typealias ID = UInt64

    /// How messages are taken.
    enum Track: Int, CaseIterable, Sendable {
        /// Many in one call.
        case together
        /// Each in a call of its own.
        case alone
    }

    /// A message that waits.
    struct Entry: Sendable, Hashable {
        var id: ID
        /// Its part of the request.
        var bytes: [UInt8]
    }

    private struct Waiting: Sendable {
        var entries: [Entry] = []
        var first = 0
        var callers = 0

        var isEmpty: Bool { first == entries.count }

        mutating func take() -> Entry {
            let entry = entries[first]
            // From here on they are the call's, and go with it.
            entries[first].bytes = []
            first += 1
            // Gives the memory back without moving everything each time.
            if first > 64, first * 2 > entries.count {
                entries.removeFirst(first)
                first = 0
            }
            return entry
        }
    }

    /// The most messages in one call.
    let batch: Int
    /// The most bytes in one call of more than one message.
    let bytes: Int
    /// The most calls at the same time, by track.
    let callers: [Int]
    private var waiting = Track.allCases.map { _ in Waiting() }

    /// An empty queue.
    init(batch: Int, bytes: Int, together: Int, alone: Int) {
        (self.batch, self.bytes, callers) = (batch, bytes, [together, alone])
    }

    /// How many messages wait.
    var count: Int { waiting.reduce(0) { $0 + $1.entries.count - $1.first } }

    /// A message waits from now on.
    ///
    /// - Returns: Whether another caller is to begin on the track.
    mutating func append(_ entry: Entry, to track: Track) -> Bool {
        waiting[track.rawValue].entries.append(entry)
        guard waiting[track.rawValue].callers < callers[track.rawValue] else { return false }
        waiting[track.rawValue].callers += 1
        return true
    }

    /// What a caller is to take into its next call; nothing: the caller ends.
    mutating func next(_ track: Track) -> [Entry] {
        var taken: [Entry] = []
        var size = 0
        while !waiting[track.rawValue].isEmpty, taken.count < (track == .alone ? 1 : batch) {
            let next = waiting[track.rawValue].entries[waiting[track.rawValue].first].bytes.count
            guard taken.isEmpty || size + next <= bytes else { break }
            size += next
            taken.append(waiting[track.rawValue].take())
        }
        if taken.isEmpty { waiting[track.rawValue].callers -= 1 }
        return taken
    }

    /// A message waits no longer; nothing happens where a call has it already.
    mutating func remove(_ id: ID) {
        for track in waiting.indices {
            let index = waiting[track].entries.indices.dropFirst(waiting[track].first)
                .first { waiting[track].entries[$0].id == id }
            if let index { waiting[track].entries.remove(at: index) }
        }
    }
}
