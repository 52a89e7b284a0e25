import Dispatcher
import Testing
import UpstreamKit
import Vocabulary

/// How many messages a call takes.
@Suite struct BatchSizeTests {
    private let start = ContinuousClock.now

    private func machine(batch: Int, concurrency: Int = 2) throws -> DispatchStateMachine {
        try .ofFunction(batch: batch, concurrency: concurrency)
    }

    private func deliveries(_ numbers: Range<UInt64>, attempts: Int = 0) -> [Delivery] {
        numbers.map { number in
            Delivery(
                content: .stored(.sample(category: "c", data: nil)),
                messageKey: Digest128(high: 1, low: number),
                attempts: attempts,
                lease: Lease(token: 1, deadline: start + .seconds(60))
            )
        }
    }

    @Test("short calls make larger ones, up to the limit; long ones smaller ones")
    func grows() {
        var size = BatchSize(upTo: 100)
        #expect(size.size == 8)
        for wanted in [16, 32, 64, 100, 100] {
            size.called(size.size, took: .milliseconds(5), areTogether: true)
            #expect(size.size == wanted)
        }
        // Small ones say nothing.
        var small = BatchSize(upTo: 100)
        small.called(3, took: .milliseconds(5), areTogether: true)
        #expect(small.size == 8)
        size.called(100, took: .milliseconds(70), areTogether: true)
        #expect(size.size == 100)
        size.called(100, took: .milliseconds(300), areTogether: true)
        #expect(size.size == 50)
        // A call of few that is slow: as many are too many.
        size.called(2, took: .seconds(3), areTogether: true)
        #expect(size.size == 1)
        var one = BatchSize(upTo: 1)
        one.called(1, took: .zero, areTogether: true)
        #expect(one.size == 1)
    }

    @Test("messages that disturb each other go alone, longer each time")
    func alone() {
        var size = BatchSize(upTo: 100)
        for pause in [8, 16, 32, 64, 128, 256, 256] {
            size.called(size.size, took: .milliseconds(5), areTogether: false)
            for _ in 0..<pause {
                #expect(size.size == 1)
                size.called(1, took: .milliseconds(1), areTogether: true)
            }
        }
        for wanted in [2, 4, 8] {
            size.called(size.size, took: .milliseconds(1), areTogether: true)
            #expect(size.size == wanted)
        }
        // Three steps that went well have made it less careful: 256, 128, 64, 32, and twice that.
        size.called(8, took: .milliseconds(5), areTogether: false)
        for _ in 0..<64 { size.called(1, took: .milliseconds(1), areTogether: true) }
        #expect(size.size == 1)
        size.called(1, took: .milliseconds(1), areTogether: true)
        #expect(size.size == 2)
    }

    @Test("each slot begins its share of what waits, and what has failed goes alone")
    func shares() throws {
        var machine = try machine(batch: 100)
        _ = machine.claimed(deliveries(1..<5), hasMore: false, now: start)
        #expect(machine.beginCall(now: start).count == 2)
        #expect(machine.beginCall(now: start).count == 1)
        #expect(machine.beginCall(now: start).count == 1)
        #expect(machine.beginCall(now: start).isEmpty)
        machine = try self.machine(batch: 100)
        _ = machine.claimed(deliveries(1..<4, attempts: 1) + deliveries(4..<40), hasMore: false, now: start)
        var sizes: [Int] = []
        while case let call = machine.beginCall(now: start), !call.isEmpty {
            let tried = call.count { $0.number > 1 }
            #expect(tried == 0 || call.count == 1)
            sizes.append(call.count)
        }
        #expect(sizes.reduce(0, +) == 39 && sizes.max() == 8)
    }

    @Test("after a call that failed as a whole each message is alone, under the same lease")
    func afterFailure() throws {
        var machine = try machine(batch: 100, concurrency: 1)
        _ = machine.claimed(deliveries(0..<8), hasMore: false, now: start)
        let call = machine.beginCall(now: start)
        #expect(call.count == 8)
        for attempt in call {
            let action = machine.finished(attempt.id, .alone, now: start, random: 1)
            #expect(action.settlement == nil && action.transition == nil)
        }
        _ = machine.claimed(deliveries(8..<12), hasMore: false, now: start)
        var seen: Set<UInt64> = []
        while case let call = machine.beginCall(now: start), let first = call.first {
            for attempt in call {
                seen.insert(attempt.delivery.messageKey.low)
                _ = machine.finished(attempt.id, .verdict(.done), now: start, random: 1)
            }
            #expect(first.number == 1 && (call.count == 1 || first.delivery.messageKey.low >= 8))
        }
        #expect(seen.count == 12)
        // A handler that stops gives them back.
        _ = machine.claimed(deliveries(20..<22), hasMore: false, now: start)
        let last = machine.beginCall(now: start)
        _ = machine.stop()
        #expect(
            machine.finished(last[0].id, .alone, now: start, random: 1).settlement?.outcome == .release(after: .zero)
        )
    }

    @Test("what a call leaves to go alone waits for no pause that another message of it was answered with")
    func afterPause() throws {
        var machine = try machine(batch: 100, concurrency: 1)
        _ = machine.claimed(deliveries(0..<8), hasMore: false, now: start)
        let call = machine.beginCall(now: start)
        let busy = HandlerVerdict.down(after: nil, hold: .seconds(3_600), HandlerFailure(group: "g", detail: "d"))
        let first = machine.finished(call[0].id, .verdict(busy), now: start, random: 1)
        #expect(call.count == 8 && first.transition == .held(for: .seconds(3_600)))
        for attempt in call.dropFirst() {
            let action = machine.finished(attempt.id, .alone, now: start, random: 1)
            #expect(action.released == [attempt.delivery.settled(.release(after: .zero))])
        }
        #expect(machine.isIdle)
    }

    @Test("a handler without batches begins one message at a time, and a probe is alone")
    func ones() throws {
        var machine = try machine(batch: 1, concurrency: 3)
        _ = machine.claimed(deliveries(1..<10), hasMore: false, now: start)
        for _ in 0..<3 { #expect(machine.beginCall(now: start).count == 1) }
        #expect(machine.beginCall(now: start).isEmpty)
    }
}

extension DispatchStateMachine {
    /// The machine of a handler that is a database function.
    static func ofFunction(batch: Int, concurrency: Int, rate: HandlerRate? = nil) throws -> DispatchStateMachine {
        let function = try #require(SQLFunction("app.f"))
        var registration = HandlerRegistration(
            name: "h",
            categories: .all,
            body: .function(function, batch: batch)
        )
        registration.concurrency = concurrency
        registration.rate = rate
        return DispatchStateMachine(LaneSettings(registration, DispatchSettings()))
    }
}
