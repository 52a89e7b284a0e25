import Dispatcher
import Testing
import UpstreamKit
import Vocabulary

/// Whose fault a failure is: the message's or the handler's.
@Suite("faults of messages and of handlers")
struct DispatchFaultTests {
    let start = ContinuousClock.now
    let failure = HandlerFailure(group: "boom", detail: "it went boom")

    func machine(concurrency: Int = 4, maxAttempts: Int = 100) -> DispatchStateMachine {
        var registration = HandlerRegistration("h", categories: .all, handler: ClosureHandler { _, _ in .done })
        registration.concurrency = concurrency
        registration.retry = RetryPolicy(maxAttempts: maxAttempts, initial: .seconds(1), maximum: .seconds(60))
        var settings = DispatchSettings()
        settings.breaker.threshold = 3
        return DispatchStateMachine(LaneSettings(registration, settings))
    }

    func delivery(_ number: UInt64, attempts: Int = 0) -> Delivery {
        Delivery(
            content: .stored(.sample(category: "c", data: nil)),
            messageKey: Digest128(high: 0, low: number),
            attempts: attempts,
            lease: Lease(token: Int64(number), deadline: start + .seconds(86_400))
        )
    }

    /// Runs the next attempt to this end; nil where none may begin.
    func run(
        _ machine: inout DispatchStateMachine,
        _ verdict: HandlerVerdict,
        at now: Duration = .zero
    ) -> (number: UInt64, action: DispatchStateMachine.FinishAction)? {
        guard let attempt = machine.begin(now: start + now) else { return nil }
        return (
            attempt.delivery.messageKey.low,
            machine.finished(attempt.id, .verdict(verdict), now: start + now, random: 1)
        )
    }

    @Test("answers that refuse messages never open the breaker, however many come in a row")
    func refusals() throws {
        var machine = machine()
        for number in 1...40 as ClosedRange<UInt64> {
            _ = machine.claimed([delivery(number)], hasMore: false, now: start)
            let verdict = number.isMultiple(of: 10) ? HandlerVerdict.reject(failure) : .retry(after: nil, failure)
            let (_, action) = try #require(run(&machine, verdict))
            #expect(action.transition == nil)
        }
        #expect(machine.claimLimit(now: start) > 0)
        #expect(machine.reserve(1) == true)
    }

    @Test("failures in a row are the attempts that failed since a success, also those that do not count")
    func failedInRow() {
        var machine = machine()
        let ends: [(UInt64, HandlerVerdict, Int)] = [
            (1, .unavailable(after: nil, failure), 1), (2, .reject(failure), 2), (3, .interrupted(failure), 3),
            (4, .cancelled, 3), (5, .down(after: nil, failure), 4), (6, .done, 0), (7, .retry(after: nil, failure), 1),
        ]
        for (number, verdict, expected) in ends {
            _ = machine.claimed([delivery(number)], hasMore: false, now: start)
            #expect(run(&machine, verdict)?.number == number && machine.failedInRow == expected, "\(verdict)")
        }
    }

    @Test("a probe that is refused for its own sake proves that the handler is up")
    func refusedProbe() throws {
        var machine = machine()
        _ = machine.claimed((1...3).map { delivery($0) }, hasMore: false, now: start)
        for _ in 1...3 { _ = run(&machine, .down(after: nil, failure)) }
        #expect(machine.isAboutToProbe(now: start) == false)
        #expect(machine.isAboutToProbe(now: start + .seconds(2)) == true)
        _ = machine.claimed([delivery(4, attempts: 1)], hasMore: false, now: start + .seconds(2))
        let (_, action) = try #require(run(&machine, .retry(after: nil, failure), at: .seconds(2)))
        #expect(action.transition == .closed)
    }

    @Test("a probe takes a message that never failed before one that did")
    func probeOrder() throws {
        var machine = machine()
        _ = machine.claimed((1...3).map { delivery($0) }, hasMore: false, now: start)
        for _ in 1...3 { _ = run(&machine, .down(after: nil, failure)) }
        _ = machine.claimed(
            [delivery(4, attempts: 1), delivery(5, attempts: 2), delivery(6)],
            hasMore: false,
            now: start + .seconds(2)
        )
        let (number, _) = try #require(run(&machine, .done, at: .seconds(2)))
        #expect(number == 6)
    }

    @Test("messages that failed before and those that did not take turns, and the former get half of the slots at most")
    func turns() throws {
        var machine = machine(concurrency: 4)
        _ = machine.claimed((1...10).map { delivery($0, attempts: 1) }, hasMore: false, now: start)
        _ = machine.claimed((11...20).map { delivery($0) }, hasMore: false, now: start)
        var ids: [(DispatchStateMachine.RunID, isRetry: Bool)] = []
        while let attempt = machine.begin(now: start) {
            ids.append((attempt.id, attempt.delivery.attempts > 0))
        }
        // None of them ends: as when each runs into its timeout.
        #expect(ids.map(\.isRetry) == [false, true, false, true])
        for (id, isRetry) in ids where !isRetry {
            _ = machine.finished(id, .verdict(.done), now: start, random: 1)
        }
        for _ in 1...8 {
            let begun = machine.begin(now: start)
            let attempt = try #require(begun, "a slot stays idle")
            #expect(attempt.delivery.attempts == 0, "the retries hold their half, and no more")
            _ = machine.finished(attempt.id, .verdict(.done), now: start, random: 1)
        }
        // With nobody else waiting they get all slots.
        for _ in 1...2 {
            let begun = machine.begin(now: start)
            let attempt = try #require(begun, "a slot stays idle")
            #expect(attempt.delivery.attempts == 1)
        }
    }

    @Test("a single slot goes to each kind in turn")
    func turnsOfOne() throws {
        var machine = machine(concurrency: 1)
        _ = machine.claimed((1...3).map { delivery($0, attempts: 1) }, hasMore: false, now: start)
        _ = machine.claimed((11...13).map { delivery($0) }, hasMore: false, now: start)
        let numbers = try (1...6).map { _ in try #require(run(&machine, .done)).number }
        #expect(numbers == [11, 1, 12, 2, 13, 3])
    }

    @Test("what comes after the breaker has opened is released; what a probe needs is not")
    func lateArrivals() throws {
        var machine = machine()
        #expect(machine.claimed([delivery(1)], hasMore: false, now: start) == [])
        #expect(machine.reserve(1) == true)
        _ = try #require(run(&machine, .down(after: nil, hold: .seconds(30), failure)))
        let released = [delivery(2), delivery(3)].map { $0.settled(.release(after: .zero)) }
        #expect(machine.handOver([delivery(2)], reserved: 1, now: start) == [released[0]])
        #expect(machine.claimed([delivery(3)], hasMore: false, now: start) == [released[1]])
        #expect(machine.isIdle)
        let probe = start + .seconds(30)
        #expect(machine.claimLimit(now: probe) == 1)
        #expect(machine.claimed([delivery(4)], hasMore: false, now: probe) == [])
        #expect(run(&machine, .done, at: .seconds(30))?.number == 4)
    }

    @Test("a pause that the handler asks for holds every message, and ends with a probe")
    func held() throws {
        var machine = machine()
        _ = machine.claimed((1...3).map { delivery($0) }, hasMore: false, now: start)
        let (_, action) = try #require(run(&machine, .down(after: .seconds(30), hold: .seconds(30), failure)))
        #expect(action.transition == .held(for: .seconds(30)))
        #expect(action.ending == .retry)
        #expect(action.released.count == 2)
        #expect(machine.reserve(1) == false)
        #expect(machine.claimLimit(now: start + .seconds(29)) == 0)
        #expect(machine.claimLimit(now: start + .seconds(30)) == 1)
        _ = machine.claimed([delivery(4)], hasMore: false, now: start + .seconds(30))
        #expect(try #require(run(&machine, .done, at: .seconds(30))).action.transition == .closed)
        #expect(machine.reserve(1) == true)
    }

    @Test("a message that cuts its handler off is counted from the fourth time, and ends as a dead letter")
    func interrupted() throws {
        var machine = machine(maxAttempts: 2)
        var attempts = 0
        var endings: [AttemptOutcome?] = []
        for _ in 1...5 {
            _ = machine.claimed([delivery(1, attempts: attempts)], hasMore: false, now: start)
            let (_, action) = try #require(run(&machine, .interrupted(failure)))
            #expect(action.transition == nil, "it says nothing about the handler")
            endings.append(action.ending)
            if action.ending == .retry { attempts += 1 }
        }
        #expect(endings == [.released, .released, .released, .retry, .exhausted])
    }

    @Test("a message that can't even be begun waits for ever, unless others are handled meanwhile")
    func unavailable() throws {
        var machine = machine()
        var now = Duration.zero
        func isCounted(_ number: UInt64) throws -> Bool {
            // Past every pause of the breaker.
            now += .seconds(120)
            _ = machine.claimed([delivery(number)], hasMore: false, now: start + now)
            return try #require(run(&machine, .unavailable(after: nil, failure), at: now)).action.ending == .retry
        }
        for _ in 1...30 { #expect(try isCounted(1) == false) }
        var counted: [Bool] = []
        for number in 10...14 as ClosedRange<UInt64> {
            now += .seconds(120)
            _ = machine.claimed([delivery(number)], hasMore: false, now: start + now)
            _ = run(&machine, .done, at: now)
            counted.append(try isCounted(1))
        }
        // The first of the thirty is one of the three that are free.
        #expect(counted == [false, false, true, true, true])
    }

    @Test("fresh messages are handed over up to so many bytes; beyond them they wait in the table")
    func bytes() {
        var machine = machine()
        let half = DispatchSettings().waitingBytes / 2
        #expect(machine.reserve(1, bytes: half) == true)
        #expect(machine.reserve(1, bytes: half) == true)
        #expect(machine.reserve(1, bytes: 1) == false)
        #expect(machine.handOver([], reserved: 1, bytes: half, now: start) == [])
        var large = delivery(1)
        large.content = .stored(.sample(category: "c", data: "\"" + String(repeating: "x", count: half) + "\""))
        #expect(machine.handOver([large], reserved: 1, bytes: half, now: start) == [])
        #expect(machine.reserve(1, bytes: half) == false, "it waits, and takes its bytes")
        #expect(run(&machine, .done) != nil)
        #expect(machine.reserve(1, bytes: half) == true)
    }
}
