/// The messages waiting for a plugin, grouped into calls.
///
/// Pure. During a call, others collect for the next one; there is no timer. Messages that failed before, or were in a
/// call whose process ended, go one by one on a separate track: so a failing call identifies its message, and no
/// message that never failed waits behind them.
struct PluginQueue: Sendable {
    /// Identifies a waiting message; never reused.
    typealias ID = UInt64

    enum Track: Int, CaseIterable, Sendable {
        case together
        case alone
    }

    struct Entry: Sendable, Hashable {
        var id: ID
        var bytes: [UInt8]
    }

    private struct Waiting: Sendable {
        var entries: [Entry] = []
        var first = 0
        var callers = 0

        var isEmpty: Bool { first == entries.count }

        mutating func take() -> Entry {
            let entry = entries[first]
            // From here on they are the call's, and are freed with it.
            entries[first].bytes = []
            first += 1
            // Frees memory without moving everything each time.
            if first > 64, first * 2 > entries.count {
                entries.removeFirst(first)
                first = 0
            }
            return entry
        }
    }

    let batch: Int
    /// The most bytes in one call of more than one message.
    let bytes: Int
    /// The most concurrent calls, by track.
    let callers: [Int]
    private var waiting = Track.allCases.map { _ in Waiting() }

    init(batch: Int, bytes: Int, together: Int, alone: Int) {
        (self.batch, self.bytes, callers) = (batch, bytes, [together, alone])
    }

    var count: Int { waiting.reduce(0) { $0 + $1.entries.count - $1.first } }

    /// Adds a message; returns whether to start another caller on the track.
    mutating func append(_ entry: Entry, to track: Track) -> Bool {
        waiting[track.rawValue].entries.append(entry)
        guard waiting[track.rawValue].callers < callers[track.rawValue] else { return false }
        waiting[track.rawValue].callers += 1
        return true
    }

    /// The messages of a caller's next call; if empty, the caller ends.
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

    /// Removes a message, unless a call has it already.
    mutating func remove(_ id: ID) {
        for track in waiting.indices {
            let index = waiting[track].entries.indices.dropFirst(waiting[track].first)
                .first { waiting[track].entries[$0].id == id }
            if let index { waiting[track].entries.remove(at: index) }
        }
    }
}
