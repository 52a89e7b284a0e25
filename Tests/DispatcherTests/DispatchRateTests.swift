import Testing
import UpstreamKit
import Vocabulary

@testable import Dispatcher

/// A handler's rate, and how far its retries reach.
@Suite struct DispatchRateTests {
    private let start = ContinuousClock.now

    private func machine(_ rate: HandlerRate?, concurrency: Int = 1_000) -> DispatchStateMachine {
        var registration = HandlerRegistration("h", categories: .all, handler: ClosureHandler { _, _ in .done })
        registration.concurrency = concurrency
        registration.rate = rate
        return DispatchStateMachine(LaneSettings(registration, DispatchSettings()))
    }

    private func deliveries(_ count: Int, from first: UInt64) -> [Delivery] {
        (0..<UInt64(count)).map { number in
            Delivery(
                content: .stored(.sample(category: "c", data: nil)),
                messageKey: Digest128(high: 1, low: first + number),
                attempts: 0,
                crashes: 0,
                lease: Lease(token: 1, deadline: start + .seconds(36_000))
            )
        }
    }

    /// Claims and begins all that it may, and takes every message at once; returns how many attempts began.
    private func begin(
        _ machine: inout DispatchStateMachine,
        at now: ContinuousClock.Instant,
        from first: UInt64
    ) -> Int {
        let limit = machine.claimLimit(now: now)
        guard limit > 0 else { return 0 }
        _ = machine.claimed(deliveries(limit, from: first), hasMore: true, now: start)
        var count = 0
        while let attempt = machine.begin(now: now) {
            _ = machine.finished(attempt.id, .verdict(.done), now: now, random: 0.5)
            count += 1
        }
        return count
    }

    @Test("No more attempts begin than the rate allows, over any time and after a pause", arguments: [3, 100, 2_500])
    func neverOverTheRate(_ rate: Int) {
        var machine = machine(HandlerRate(rate))
        var begun: [(Duration, Int)] = []
        var number: UInt64 = 0
        for step in 0..<400 where !(150..<300).contains(step) {
            let now = Duration.milliseconds(50 * step)
            let count = begin(&machine, at: start + now, from: number)
            number += UInt64(count)
            begun.append((now, count))
        }
        for (index, (from, _)) in begun.enumerated() {
            var total = 0
            for (now, count) in begun[index...] {
                total += count
                let allowed = Double(rate) * (1 + (now - from).inSeconds)
                #expect(Double(total) <= allowed + 0.001, "\(total) attempts from \(from) to \(now)")
            }
        }
        // Nor much less, where there always is something to do.
        let all = begun.reduce(0) { $0 + $1.1 }
        #expect(all >= rate * 13, "\(all)")
    }

    @Test("A rate below one a second lets one begin at a time")
    func slowRates() {
        var machine = machine(HandlerRate(2, per: .seconds(60)))
        let begun = [0, 29, 31, 3_600].enumerated().map { index, second in
            begin(&machine, at: start + .seconds(second), from: UInt64(index))
        }
        #expect(begun == [1, 0, 1, 1])
    }

    @Test("What waits for its turn is neither leased nor handed over: it stays in the table")
    func waitsInTheTable() {
        var limited = machine(HandlerRate(10))
        let isLimitedReserved = limited.reserve(1)
        #expect(!isLimitedReserved)
        #expect(limited.replayRoom == nil)
        #expect(limited.claimLimit(now: start) == 10)
        _ = limited.claimed(deliveries(10, from: 0), hasMore: true, now: start)
        #expect(limited.claimLimit(now: start + .seconds(5)) == 0, "as many as may begin at once are held already")
        var unlimited = machine(nil)
        let isReserved = unlimited.reserve(1)
        #expect(isReserved)
        #expect(unlimited.claimLimit(now: start) == 500)
    }

    @Test("Retries count as first attempts do, and a slot that is free wakes no claim before the rate allows one")
    func retriesCount() throws {
        var machine = machine(HandlerRate(1))
        _ = machine.claimed(deliveries(1, from: 0), hasMore: true, now: start)
        let begun = machine.begin(now: start)?.id
        let id = try #require(begun)
        let failure = HandlerFailure(group: "boom", detail: "boom")
        let action = machine.finished(id, .verdict(.retry(after: .zero, failure)), now: start, random: 0)
        #expect(!action.wantsClaim)
        #expect(!machine.wantsClaim(now: start + .milliseconds(900)))
        #expect(machine.wantsClaim(now: start + .milliseconds(1_001)))
    }

    @Test("The default retries reach over a day: 31 hours on average, and less than a day once in a thousand times")
    func reachesOverADay() {
        let policy = RetryPolicy()
        var random = SystemRandomNumberGenerator()
        var sum = Duration.zero
        var short = 0
        for _ in 0..<2_000 {
            var reach = Duration.zero
            var failures = 1
            while let wait = policy.delay(
                failures: failures,
                requested: nil,
                random: Double.random(in: 0...1, using: &random)
            ) {
                reach += wait
                failures += 1
            }
            sum += reach
            if reach < .seconds(86_400) { short += 1 }
        }
        let hours = sum.inSeconds / 2_000 / 3_600
        #expect((30...33).contains(hours), "\(hours) hours")
        // Two expected; 20 come by chance less than once in 10^12 runs.
        #expect(short < 20, "\(short) of 2,000 within a day")
    }
}
