import Testing
import UpstreamKit
import Vocabulary

@testable import Dispatcher

@Suite("what replayed deliveries get beside live ones")
struct ReplayShareTests {
    private let start = ContinuousClock.now

    private func delivery(_ number: UInt64, _ replayID: String? = nil, bytes: Int = 0) -> Delivery {
        Delivery(
            content: .stored(.sample(category: "c", data: String(repeating: " ", count: bytes))),
            messageKey: Digest128(high: 0, low: number),
            replayID: replayID,
            lease: Lease(token: Int64(number), deadline: start + .seconds(600))
        )
    }

    private func replayed(_ numbers: ClosedRange<UInt64>, bytes: Int = 0) -> [Delivery] {
        numbers.map { delivery($0, "friday", bytes: bytes) }
    }

    private func live(_ numbers: ClosedRange<UInt64>, bytes: Int = 0) -> [Delivery] {
        numbers.map { delivery($0, bytes: bytes) }
    }

    private func machine(
        batch: Int = 1,
        concurrency: Int = 4,
        rate: HandlerRate? = nil
    ) throws -> DispatchStateMachine {
        try .ofFunction(batch: batch, concurrency: concurrency, rate: rate)
    }

    /// Begins calls until none may begin; returns their messages.
    private func calls(_ machine: inout DispatchStateMachine, at now: Duration = .zero) -> [[UInt64]] {
        var calls: [[UInt64]] = []
        while case let call = machine.beginCall(now: start + now), !call.isEmpty {
            calls.append(call.map(\.delivery.messageKey.low))
        }
        return calls
    }

    // MARK: Slots

    @Test(
        "While live ones come, a replay has half of the slots, and the last one",
        arguments: [(4, 2), (3, 2), (2, 1), (1, 1)]
    )
    func slots(_ concurrency: Int, _ most: Int) throws {
        var machine = try machine(concurrency: concurrency)
        _ = machine.claimed(live(1...1), hasMore: false, now: start)
        let first = machine.beginCall(now: start)
        _ = machine.claimed(replayed(101...120), hasMore: true, now: start)
        #expect(calls(&machine).count == min(most, concurrency - 1))
        for attempt in first { _ = machine.finished(attempt.id, .verdict(.done), now: start, random: 1) }
        _ = calls(&machine)
        #expect(machine.running.count == most)
        // A live one finds a free slot.
        _ = machine.claimed(live(2...2), hasMore: false, now: start)
        #expect(calls(&machine) == (most < concurrency ? [[2]] : []))
        // A minute without: the replay has all but the one that runs.
        let left = calls(&machine, at: .seconds(60))
        #expect(machine.running.count == concurrency && left.count == concurrency - most - (most < concurrency ? 1 : 0))
    }

    @Test("A replay without live messages has every slot")
    func alone() throws {
        var machine = try machine()
        _ = machine.claimed(replayed(1...20), hasMore: true, now: start)
        #expect(calls(&machine).count == 4)
    }

    @Test("Ended calls give their slots back, also those that were abandoned")
    func ended() throws {
        var machine = try machine(batch: 8, concurrency: 2)
        _ = machine.claimed(live(1...1) + replayed(101...140), hasMore: true, now: start)
        #expect(calls(&machine) == [[1], Array(101...108)])
        for (id, run) in machine.running where run.delivery.givesWay {
            _ = machine.finished(id, .verdict(.done), now: start, random: 1)
        }
        #expect(calls(&machine) == [Array(109...116)])
        _ = machine.abandon()
        #expect(calls(&machine) == [Array(117...124)])
    }

    @Test("Failed deliveries of a replay take its slots, and live ones find theirs")
    func failed() throws {
        var machine = try machine()
        var failed = replayed(201...210)
        for index in failed.indices { failed[index].attempts = 1 }
        _ = machine.claimed(live(1...1) + failed + replayed(101...110), hasMore: true, now: start)
        #expect(calls(&machine).count == 3)
        _ = machine.claimed(live(2...2), hasMore: false, now: start)
        #expect(calls(&machine) == [[2]])
        _ = machine.finished(try #require(machine.running.keys.min()), .settled, now: start, random: 1)
        #expect(calls(&machine).isEmpty)
        // A minute without live ones.
        #expect(calls(&machine, at: .seconds(60)).count == 1)
    }

    @Test("Live and replayed deliveries share no call")
    func apart() throws {
        var machine = try machine(batch: 100, concurrency: 1)
        _ = machine.claimed(replayed(101...150) + live(1...3), hasMore: true, now: start)
        #expect(machine.beginCall(now: start).map(\.delivery.messageKey.low) == [1, 2, 3])
    }

    @Test("A replayed delivery that a live one waits for goes as if it were live")
    func urgent() throws {
        var machine = try machine(batch: 100, concurrency: 1)
        var urgent = delivery(50, "friday")
        urgent.isUrgent = true
        _ = machine.claimed(replayed(101...150) + [urgent] + live(1...1), hasMore: true, now: start)
        #expect(machine.beginCall(now: start).map(\.delivery.messageKey.low) == [50, 1])
    }

    @Test("In the only slot a replay's calls last milliseconds while live ones come, and live ones' calls as before")
    func shortCalls() throws {
        var machine = try machine(batch: 100, concurrency: 1)
        func call(took: Duration) -> [Attempt] {
            let call = machine.beginCall(now: start)
            for attempt in call { _ = machine.finished(attempt.id, .settled, now: start, random: 1) }
            machine.called(call, took: took, areTogether: true, now: start)
            return call
        }
        typealias Attempt = DispatchStateMachine.Attempt
        _ = machine.claimed(replayed(1_001...2_000), hasMore: true, now: start)
        for _ in 1...6 { _ = call(took: .milliseconds(20)) }
        #expect(call(took: .milliseconds(20)).count == 100)
        _ = machine.claimed(live(1...1), hasMore: false, now: start)
        #expect(call(took: .milliseconds(1)).map(\.delivery.messageKey.low) == [1])
        #expect(call(took: .milliseconds(1)).count == 8)
        #expect(call(took: .milliseconds(2)).count == 16)
        #expect(call(took: .milliseconds(5)).count == 16)
        #expect(call(took: .milliseconds(2)).count == 8)
        _ = machine.claimed(live(2...102), hasMore: false, now: start)
        #expect(call(took: .milliseconds(20)).count == 100)
    }

    @Test("In the only slot a replay's calls don't shrink because each commit is slow, as live ones' calls show")
    func slowCommits() throws {
        var machine = try machine(batch: 100, concurrency: 1)
        _ = machine.claimed(replayed(1_001...9_000), hasMore: true, now: start)
        var (sizes, number) = ([Int](), UInt64(1))
        // A commit takes 8 ms, a message 0.1 ms.
        for _ in 1...100 {
            _ = machine.claimed(live(number...number), hasMore: false, now: start)
            number += 1
            for _ in 1...2 {
                let call = machine.beginCall(now: start)
                for attempt in call { _ = machine.finished(attempt.id, .settled, now: start, random: 1) }
                let took = Duration.milliseconds(8) + .microseconds(100) * call.count
                machine.called(call, took: took, areTogether: true, now: start)
                if call.first?.delivery.givesWay == true { sizes.append(call.count) }
            }
        }
        #expect(sizes.suffix(50).allSatisfy { (16...100).contains($0) }, "\(sizes)")
    }

    // MARK: Turns

    @Test("While live ones always wait, a replay has one delivery in eight, in calls of any size", arguments: [1, 100])
    func turns(_ batch: Int) throws {
        var machine = try machine(batch: batch, concurrency: 1)
        _ = machine.claimed(replayed(10_001...10_400), hasMore: true, now: start)
        var (begun, next) = ([UInt64](), UInt64(1))
        while begun.count < 1_600 {
            if machine.waiting.count(replayed: false) < 200 {
                _ = machine.claimed(live(next...(next + 199)), hasMore: true, now: start)
                next += 200
            }
            let call = machine.beginCall(now: start)
            #expect(Set(call.map(\.delivery.givesWay)).count == 1)
            begun += call.map(\.delivery.messageKey.low)
            for attempt in call { _ = machine.finished(attempt.id, .settled, now: start, random: 1) }
            machine.called(call, took: .milliseconds(1), areTogether: true, now: start)
        }
        let share = begun.count { $0 > 10_000 } * 8 * 100 / begun.count
        #expect((90...110).contains(share), "\(share) %")
    }

    @Test("Claims that live ones fill owe replayed ones a turn in eight, unless there are none")
    func owed() throws {
        var machine = try machine()
        #expect(machine.replayedOwed == 0)
        _ = machine.claimed(live(1...70), hasMore: true, hasMoreReplayed: nil, now: start)
        #expect(machine.replayedOwed == 10)
        _ = machine.claimed(live(71...140) + replayed(201...210), hasMore: true, hasMoreReplayed: true, now: start)
        #expect(machine.replayedOwed == 10)
        _ = machine.claimed(live(141...210), hasMore: true, hasMoreReplayed: false, now: start)
        #expect(machine.replayedOwed == 0)
        for _ in 1...100 { _ = machine.claimed(live(1...500), hasMore: true, hasMoreReplayed: nil, now: start) }
        #expect(machine.replayedOwed == 500)
    }

    // MARK: Claims

    @Test("Replayed deliveries that wait hold up no claim of live ones, and have room of their own")
    func rooms() throws {
        var machine = try machine()
        #expect(machine.claimLimit(now: start) == 500 && machine.replayedLimit(now: start) == 500)
        _ = machine.claimed(replayed(1...600), hasMore: false, hasMoreReplayed: true, now: start)
        #expect(machine.claimLimit(now: start) == 500 && machine.replayedLimit(now: start) == 0)
        #expect(!machine.wantsClaim(now: start))
        for id in 1...100 as ClosedRange<UInt64> {
            _ = machine.beginCall(now: start)
            _ = machine.finished(id, .settled, now: start, random: 1)
        }
        #expect(machine.replayedLimit(now: start) == 500 && machine.wantsClaim(now: start))
        _ = machine.claimed(live(1_001...1_501), hasMore: true, hasMoreReplayed: true, now: start)
        #expect(machine.claimLimit(now: start) == 0 && machine.replayedLimit(now: start) == 500)
        #expect(!machine.wantsClaim(now: start))
    }

    @Test("The bytes of live and replayed deliveries are together no more than the handler's memory")
    func bytes() throws {
        var machine = try machine()
        let most = DispatchSettings().waitingBytes
        #expect(machine.claimBytes == most / 2 && machine.replayedBytes == most / 2)
        // A quarter: a claim of live ones may take half.
        _ = machine.claimed(replayed(1...2, bytes: most / 8 - 1_024), hasMore: false, now: start)
        #expect(machine.claimBytes == most / 2 && machine.replayedBytes == most / 4)
        #expect(machine.claimLimit(now: start) == 500 && machine.replayedLimit(now: start) == 500)
        _ = machine.claimed(replayed(3...4, bytes: most / 8 - 1_024), hasMore: false, now: start)
        #expect(machine.claimBytes == most / 2 && machine.replayedBytes == 0)
        #expect(machine.claimLimit(now: start) == 500 && machine.replayedLimit(now: start) == 0)
        _ = machine.claimed(live(5...7, bytes: most / 8 - 1_024), hasMore: false, now: start)
        #expect(machine.claimBytes == most / 8 && machine.claimLimit(now: start) == 0)
    }

    @Test("A handler with a rate claims few replayed ones at once, so that most of its rate is left for live ones")
    func rate() throws {
        var machine = try machine(rate: HandlerRate(20))
        #expect(machine.claimLimit(now: start) == 20 && machine.replayedLimit(now: start) == 4)
        _ = machine.claimed(replayed(1...4), hasMore: false, hasMoreReplayed: true, now: start)
        #expect(machine.claimLimit(now: start) == 16 && machine.replayedLimit(now: start) == 0)
        machine = try self.machine(rate: HandlerRate(200))
        #expect(machine.claimLimit(now: start) == 200 && machine.replayedLimit(now: start) == 20)
    }

    @Test("A request knows what is left of it, and whether the table has more of each kind")
    func request() throws {
        var request = ClaimRequest(handler: "h", limit: 10, lease: .seconds(60), owner: "a")
        (request.replayed, request.owed) = (6, 2)
        let size = delivery(1).content.size
        (request.bytes, request.replayedBytes) = (20 * size, 5 * size)
        let rest = try #require(request.rest(after: live(1...3) + replayed(4...6)))
        #expect(rest.limit == 4 && rest.replayed == 3 && rest.owed == 0)
        #expect(rest.bytes == 17 * size && rest.replayedBytes == 2 * size)
        #expect(request.rest(after: replayed(1...8))?.replayed == 0)
        #expect(request.rest(after: live(1...10)) == nil)
        // Without bytes for one, none is asked for.
        #expect(request.rest(after: replayed(1...5))?.replayed == 0)
        #expect(request.fits(live(1...3) + replayed(4...7)) && !request.fits(live(1...3) + replayed(4...8)))
        func left(_ found: [Delivery]) -> [Bool?] {
            let left = request.left(after: found)
            return [left.any, left.replayed]
        }
        #expect(left(live(1...3)) == [false, false])
        #expect(left(live(1...3) + replayed(11...14)) == [false, false])
        #expect(left(live(1...3) + replayed(11...15)) == [false, true])
        // Full, but not of live ones.
        let filled = request.left(after: live(1...4) + replayed(11...16))
        #expect(filled.any && !filled.live && filled.replayed == true)
        #expect(left(live(1...10)) == [true, false])
        #expect(left(live(1...10) + replayed(11...12)) == [true, true])
        request.owed = 0
        #expect(left(live(1...10)) == [true, nil])
        request.bytes = 4 * size
        #expect(left(live(1...4)) == [true, nil])
    }
}
