import Testing
import UpstreamKit
import Vocabulary

@testable import Dispatcher

@Suite("Deliveries leave in the order in which they came, also where more come after the first ones have left")
struct DeliveryQueueTests {
    private let start = ContinuousClock.now

    private func delivery(
        _ number: UInt64,
        leaseEnd: Duration = .seconds(60),
        replayID: String? = nil
    ) -> Delivery {
        Delivery(
            content: .stored(.sample(category: "c", data: nil)),
            messageKey: Digest128(high: 0, low: number),
            replayID: replayID,
            lease: Lease(token: Int64(number), deadline: start + leaseEnd)
        )
    }

    /// A machine that took 1 to 3, began 1, and then took 4 to 6.
    private func machine(isFresh: Bool, secondEnds: Duration = .seconds(60)) -> DispatchStateMachine {
        let handler = ClosureHandler { _, _ in .done }
        var machine = DispatchStateMachine(
            LaneSettings(
                HandlerRegistration("h", categories: .all, handler: handler),
                DispatchSettings(),
                isImmediate: true
            )
        )
        func take(_ deliveries: [Delivery]) {
            if isFresh {
                let hasRoom = machine.reserve(deliveries.count)
                let released = machine.handOver(deliveries, reserved: deliveries.count, now: start)
                #expect(hasRoom && released == [])
            } else {
                let refused = machine.claimed(deliveries, hasMore: false, now: start)
                #expect(refused == [])
            }
        }
        take([delivery(1), delivery(2, leaseEnd: secondEnds), delivery(3)])
        let first = machine.begin(now: start)
        #expect(first?.delivery.messageKey.low == 1)
        take((4...6).map { delivery($0) })
        return machine
    }

    /// Begins all that waits.
    private func begun(_ machine: inout DispatchStateMachine, at now: Duration = .zero) -> [UInt64] {
        var keys: [UInt64] = []
        while let attempt = machine.begin(now: start + now) { keys.append(attempt.delivery.messageKey.low) }
        return keys
    }

    @Test("They begin in their order", arguments: [false, true])
    func begins(isFresh: Bool) {
        var machine = machine(isFresh: isFresh)
        #expect(begun(&machine) == [2, 3, 4, 5, 6])
        #expect(machine.waiting.count == 0 && machine.waiting.freshBytes == 0)
    }

    @Test(
        "They begin in their order after their leases were extended, and after the old ones would have ended",
        arguments: [false, true]
    )
    func extended(isFresh: Bool) {
        var machine = machine(isFresh: isFresh)
        let asked = machine.leasesToExtend(now: start + .seconds(30))
        #expect(Set(asked.map(\.token)) == [1, 2, 3, 4, 5, 6])
        let lost = machine.extended(asked, held: Set(asked), until: start + .seconds(120))
        #expect(lost == [])
        #expect(begun(&machine, at: .seconds(70)) == [2, 3, 4, 5, 6])
    }

    @Test("They are released in their order where the handler is paused", arguments: [false, true])
    func released(isFresh: Bool) {
        var machine = machine(isFresh: isFresh)
        let released = machine.setPaused(true)
        #expect(released.map(\.messageKey.low) == [2, 3, 4, 5, 6])
        #expect(machine.waiting.count == 0 && machine.waiting.freshBytes == 0)
    }

    @Test(
        "One whose lease ends before its turn is dropped, and the others are counted as before",
        arguments: [false, true]
    )
    func dropped(isFresh: Bool) {
        let size = isFresh ? delivery(1).content.size : 0
        var machine = machine(isFresh: isFresh, secondEnds: .seconds(10))
        #expect(machine.waiting.count == 5 && machine.waiting.freshBytes == 5 * size)
        let next = machine.begin(now: start + .seconds(10))
        #expect(next?.delivery.messageKey.low == 3)
        #expect(machine.waiting.count == 3 && machine.waiting.freshBytes == 3 * size)
        #expect(begun(&machine) == [4, 5, 6])
    }

    @Test(
        "A live message begins before the replayed ones that waited, whichever way they came",
        arguments: [false, true]
    )
    func liveFirst(isFresh: Bool) {
        var queue = DeliveryQueue()
        for number in 1...20 as ClosedRange<UInt64> {
            queue.append(delivery(number, replayID: "friday"), isFresh: isFresh)
        }
        func next() -> UInt64? { queue.popFirst(allowsTried: true)?.messageKey.low }
        #expect([next(), next()] == [1, 2])
        queue.append(delivery(100), isFresh: true)
        #expect([next(), next()] == [100, 3])
    }

    @Test("A replay goes on beside a handler that always has live messages, by one turn in eight")
    func neverStarves() {
        var queue = DeliveryQueue()
        for number in 1...3 as ClosedRange<UInt64> {
            queue.append(delivery(number, replayID: "friday"), isFresh: false)
        }
        for number in 101...130 as ClosedRange<UInt64> { queue.append(delivery(number), isFresh: true) }
        let order = (0..<24).compactMap { _ in queue.popFirst(allowsTried: true)?.messageKey.low }
        #expect(order.filter { $0 > 100 } == Array(101...121))
        #expect(order.indices.filter { order[$0] <= 3 } == [7, 15, 23])
    }

    @Test("Replayed ones whose lease ended are dropped, and what is left keeps its turn")
    func droppedReplayed() {
        var queue = DeliveryQueue()
        queue.append(delivery(1, leaseEnd: .seconds(1), replayID: "friday"), isFresh: false)
        queue.append(delivery(2, replayID: "friday"), isFresh: false)
        queue.append(delivery(3), isFresh: true)
        queue.dropFirst(endingBy: start + .seconds(1))
        #expect(queue.count == 2 && queue.claimed == 1)
        #expect(queue.removeAll().map(\.messageKey.low) == [3, 2])
    }
}
