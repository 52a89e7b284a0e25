/// Something to do at a virtual time; cancelling it is enough, it needs no removal.
final class Timer {
    let process: Int
    /// Whether it keeps its place among others that are due together, as an event loop's do; else any may come first.
    let isInOrder: Bool
    private(set) var action: (() -> Void)?

    init(process: Int, isInOrder: Bool = false, _ action: @escaping () -> Void) {
        self.process = process
        self.isInOrder = isInOrder
        self.action = action
    }

    func cancel() { action = nil }

    /// Takes the action; nil if it was cancelled, or has been taken.
    func take() -> (() -> Void)? { action.take() }
}

/// Timers by time, and in the order of their making where times are equal.
struct TimerHeap {
    private struct Entry {
        let at: UInt64
        let number: UInt64
        let timer: Timer

        func isBefore(_ other: Entry) -> Bool { (at, number) < (other.at, other.number) }
    }

    private var entries: [Entry] = []
    private var made: UInt64 = 0

    var first: UInt64? { entries.first?.at }

    mutating func push(_ timer: Timer, at: UInt64) {
        made += 1
        entries.append(Entry(at: at, number: made, timer: timer))
        var child = entries.count - 1
        while child > 0 {
            let parent = (child - 1) / 2
            guard entries[child].isBefore(entries[parent]) else { break }
            entries.swapAt(child, parent)
            child = parent
        }
    }

    mutating func pop() -> Timer? {
        guard let first = entries.first else { return nil }
        let last = entries.removeLast()
        guard !entries.isEmpty else { return first.timer }
        entries[0] = last
        var parent = 0
        while true {
            var child = parent * 2 + 1
            guard child < entries.count else { break }
            if child + 1 < entries.count, entries[child + 1].isBefore(entries[child]) { child += 1 }
            guard entries[child].isBefore(entries[parent]) else { break }
            entries.swapAt(child, parent)
            parent = child
        }
        return first.timer
    }
}
