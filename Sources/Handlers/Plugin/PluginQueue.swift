import NIOCore

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
        var entries = CircularBuffer<Entry>()
        var callers = 0
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

    var count: Int { waiting.reduce(0) { $0 + $1.entries.count } }

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
        while let next = waiting[track.rawValue].entries.first, taken.count < (track == .alone ? 1 : batch) {
            guard taken.isEmpty || size + next.bytes.count <= bytes else { break }
            size += next.bytes.count
            taken.append(waiting[track.rawValue].entries.removeFirst())
        }
        if taken.isEmpty { waiting[track.rawValue].callers -= 1 }
        return taken
    }

    /// Removes a message, unless a call has it already.
    mutating func remove(_ id: ID) {
        for track in waiting.indices { waiting[track].entries.removeAll { $0.id == id } }
    }
}
