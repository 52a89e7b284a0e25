import Testing
import UpstreamKit
import Vocabulary

@testable import Dispatcher

/// A worker's share of a limit over all workers.
@Suite struct LimitShareTests {
    private let start = ContinuousClock.now
    private var end: ContinuousClock.Instant { start + .seconds(60) }

    private func machine(
        _ limit: HandlerLimit,
        concurrency: Int = 4,
        batch: Int = 1
    ) throws -> DispatchStateMachine {
        let function = try #require(SQLFunction("app.take"))
        var registration = HandlerRegistration(name: "h", categories: .all, body: .function(function, batch: batch))
        registration.concurrency = concurrency
        registration.limit = limit
        return DispatchStateMachine(LaneSettings(registration, DispatchSettings()))
    }

    private func claimed(_ machine: inout DispatchStateMachine, _ count: UInt64 = 20) {
        let deliveries = (0..<count).map { number in
            Delivery(
                content: .stored(.sample(category: "c", data: nil)),
                messageKey: Digest128(high: 1, low: number),
                lease: Lease(token: 1, deadline: start + .seconds(36_000))
            )
        }
        _ = machine.claimed(deliveries, hasMore: true, now: start)
    }

    private func request(_ machine: inout DispatchStateMachine) -> ShareRequest? { machine.requestShare() }

    private func begin(_ machine: inout DispatchStateMachine, at now: ContinuousClock.Instant) -> Int {
        var count = 0
        while machine.begin(now: now) != nil { count += 1 }
        return count
    }

    @Test("Nothing is claimed, leased or begun without a share, nor after its time")
    func nothingWithout() throws {
        var machine = try machine(HandlerLimit(concurrency: 10))
        #expect(request(&machine) == ShareRequest(handler: "h", whole: 10, most: 4, busy: 0, lease: .seconds(60)))
        #expect(machine.claimLimit(now: start) == 0)
        let isReserved = machine.reserve(1)
        #expect(!isReserved)
        claimed(&machine)
        #expect(begin(&machine, at: start) == 0)
        _ = machine.adopt(share: 3, until: end, now: start)
        #expect(begin(&machine, at: end) == 0)
        #expect(begin(&machine, at: start) == 3)
        #expect(request(&machine)?.busy == 3)
    }

    @Test("No more run than the share allows, and what others are to have is released")
    func withinTheShare() throws {
        var machine = try machine(HandlerLimit(concurrency: 10))
        _ = machine.adopt(share: 2, until: end, now: start)
        #expect(machine.claimLimit(now: start) == 4, "as many again as may run")
        claimed(&machine, 4)
        #expect(machine.claimLimit(now: start) == 0)
        #expect(begin(&machine, at: start) == 2)
        let released = machine.adopt(share: 0, until: end, now: start)
        #expect(released.count == 2)
        #expect(request(&machine)?.busy == 2)
        #expect(machine.claimLimit(now: start) == 0)
    }

    @Test("Between a request and its answer no more run than it counted: others may have the rest")
    func withoutAnAnswer() throws {
        var machine = try machine(HandlerLimit(concurrency: 10))
        _ = machine.adopt(share: 4, until: end, now: start)
        claimed(&machine, 6)
        let running = [machine.begin(now: start), machine.begin(now: start)].compactMap(\.self)
        try #require(running.count == 2)
        #expect(request(&machine)?.busy == 2)
        #expect(begin(&machine, at: start) == 0)
        _ = machine.finished(running[0].id, .verdict(.done), now: start, random: 0)
        #expect(begin(&machine, at: start) == 1, "in the place of one that has ended")
        // Nobody knows whether this one was answered.
        #expect(request(&machine)?.busy == 2)
        #expect(begin(&machine, at: start) == 0)
        machine.keepShare()
        #expect(begin(&machine, at: start) == 2)
        #expect(request(&machine)?.busy == 4)
        _ = machine.adopt(share: 3, until: end, now: start)
        #expect(begin(&machine, at: start) == 0)
    }

    @Test("A call of several messages counts once")
    func calls() throws {
        var machine = try machine(HandlerLimit(concurrency: 3), concurrency: 4, batch: 5)
        #expect(request(&machine)?.most == 3)
        _ = machine.adopt(share: 2, until: end, now: start)
        claimed(&machine)
        #expect(machine.beginCall(now: start).count == 5)
        #expect(request(&machine)?.busy == 1)
        #expect(machine.beginCall(now: start).isEmpty)
        machine.keepShare()
        #expect(machine.beginCall(now: start).count == 5)
        #expect(machine.beginCall(now: start).isEmpty)
    }

    @Test("A rate is shared in the same parts, and one smaller than the number of workers is had by some")
    func rates() throws {
        var machine = try machine(HandlerLimit(concurrency: 100, rate: HandlerRate(20)), concurrency: 100)
        #expect(request(&machine)?.whole == 20)
        _ = machine.adopt(share: 5, until: end, now: start)
        claimed(&machine)
        #expect(machine.claimLimit(now: start) == 0, "as many wait as may begin")
        var begun = 0
        for second in 0..<4 {
            let now = start + .seconds(second)
            while machine.claimLimit(now: now) > 0 || begun < 20, let attempt = machine.begin(now: now) {
                begun += 1
                _ = machine.finished(attempt.id, .verdict(.done), now: now, random: 0)
                if machine.budget?.allowed(now: now) ?? 0 < 1 { break }
            }
        }
        #expect(begun == 20, "five a second")
        var slow = try self.machine(HandlerLimit(concurrency: 4, rate: HandlerRate(1, per: .seconds(60))))
        #expect(request(&slow)?.whole == 1)
        #expect(request(&slow)?.most == 1)
    }
}
