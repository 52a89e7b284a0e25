import NIOCore
import NIOEmbedded
import Synchronization
import Testing

@testable import XMPPSession

@MainActor @Suite("The gate for connections that open")
struct OpeningGateTests {
    /// A gate, and the places that it has given, in order.
    private final class Entrance: Sendable {
        let gate = OpeningGate()
        private let places = Mutex<[OpeningGate.Place]>([])
        var count: Int { places.withLock { $0.count } }
        subscript(index: Int) -> OpeningGate.Place { places.withLock { $0[index] } }

        func enter(_ count: Int, on eventLoop: EmbeddedEventLoop) {
            for _ in 0..<count {
                gate.enter(on: eventLoop) { [self] place in
                    places.withLock { $0.append(place) }
                    return true
                }
            }
        }
    }

    @Test("a few enter at once, the others when a place is given back, and a place is given back once")
    func limit() {
        let (places, eventLoop) = (Entrance(), EmbeddedEventLoop())
        places.enter(OpeningGate.limit + 2, on: eventLoop)
        #expect(places.count == OpeningGate.limit)
        places[3].giveBack()
        #expect(places.count == OpeningGate.limit + 1)
        places[3].giveBack()
        #expect(places.count == OpeningGate.limit + 1)
        places[0].giveBack()
        #expect(places.count == OpeningGate.limit + 2)
        // Nobody waits: what is given back now is there for those that come.
        places[1].giveBack()
        places.enter(2, on: eventLoop)
        #expect(places.count == OpeningGate.limit + 3)
    }

    @Test("a connection that does not get anywhere keeps its place for a moment")
    func time() {
        let (places, eventLoop) = (Entrance(), EmbeddedEventLoop())
        places.enter(3 * OpeningGate.limit, on: eventLoop)
        eventLoop.advanceTime(by: OpeningGate.longest - .nanoseconds(1))
        #expect(places.count == OpeningGate.limit)
        eventLoop.advanceTime(by: .nanoseconds(1))
        #expect(places.count == 2 * OpeningGate.limit)
        // Given back already, so that its time counts for nobody else.
        places[OpeningGate.limit].giveBack()
        #expect(places.count == 2 * OpeningGate.limit + 1)
        eventLoop.advanceTime(by: OpeningGate.longest)
        #expect(places.count == 3 * OpeningGate.limit)
    }

    @Test("where all of those that wait give up, the stack does not grow with each")
    func allGiveUp() {
        let (places, eventLoop) = (Entrance(), EmbeddedEventLoop())
        places.enter(OpeningGate.limit, on: eventLoop)
        let asked = Atomic(0)
        for _ in 0..<100_000 {
            places.gate.enter(on: eventLoop) { _ in
                asked.add(1, ordering: .relaxed)
                return false
            }
        }
        places[0].giveBack()
        #expect(asked.load(ordering: .relaxed) == 100_000)
        // The place is free.
        places.enter(1, on: eventLoop)
        #expect(places.count == OpeningGate.limit + 1)
    }
}
