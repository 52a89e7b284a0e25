import NIOCore
import Synchronization

/// Limits how many of a sender's connections open at the same time: hundreds of handshakes at once would burden a
/// server that has just come back, and their memory (30 KB each) would fragment ours.
///
/// Nobody waits for long: a place is free again after ``longest``, bound or not.
final class OpeningGate: Sendable {
    static let limit = 16
    /// How long a connection counts as opening at most.
    static let longest = TimeAmount.milliseconds(250)

    private struct State {
        var free = OpeningGate.limit
        /// Waiting connections in order; each returns whether it takes the place.
        var waiting = CircularBuffer<@Sendable () -> Bool>()
    }

    /// A place among the opening connections.
    final class Place: Sendable {
        private let gate: OpeningGate
        private let isGiven = OnceFlag()

        fileprivate init(_ gate: OpeningGate) { self.gate = gate }

        /// Lets the next one in; a second call does nothing.
        func giveBack() {
            if isGiven.isFirst() { gate.leave() }
        }
    }

    private let state = Mutex(State())

    /// Calls a function with a place as soon as one is free; it returns whether it takes it, to give it back later.
    func enter(on eventLoop: any EventLoop, _ body: @escaping @Sendable (Place) -> Bool) {
        let begin = { @Sendable [self] in
            let place = Place(self)
            guard body(place) else { return false }
            eventLoop.scheduleTask(in: Self.longest) { place.giveBack() }
            return true
        }
        let hasRoom = state.withLock { state in
            guard state.free == 0 else {
                state.free -= 1
                return true
            }
            state.waiting.append(begin)
            return false
        }
        if hasRoom, !begin() { leave() }
    }

    private func leave() {
        while true {
            let next = state.withLock { state in
                let next = state.waiting.popFirst()
                if next == nil { state.free += 1 }
                return next
            }
            guard let next, !next() else { return }
        }
    }
}
