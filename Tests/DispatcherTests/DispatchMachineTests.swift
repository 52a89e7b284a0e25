import Dispatcher
import Testing
import UpstreamKit
import Vocabulary

@Suite("dispatch state machine")
struct DispatchMachineTests {
    let start = ContinuousClock.now
    let failure = HandlerFailure(group: "boom", detail: "it went boom")

    func machine(
        concurrency: Int = 2,
        ordering: HandlerOrdering = .none,
        _ change: (inout DispatchSettings) -> Void = { _ in }
    ) -> DispatchStateMachine {
        var registration = HandlerRegistration("h", categories: .all, handler: ClosureHandler { _, _ in .done })
        registration.concurrency = concurrency
        registration.ordering = ordering
        registration.timeout = .seconds(30)
        registration.retry = RetryPolicy(maxAttempts: 3, initial: .seconds(1), maximum: .seconds(60))
        var settings = DispatchSettings()
        settings.breaker.threshold = 3
        change(&settings)
        return DispatchStateMachine(LaneSettings(registration, settings))
    }

    func delivery(
        _ number: UInt64,
        attempts: Int = 0,
        crashes: Int = 0,
        leaseEnd: Duration = .seconds(60)
    ) -> Delivery {
        Delivery(
            content: .stored(.sample(category: "c", data: nil)),
            messageKey: Digest128(high: 0, low: number),
            attempts: attempts,
            crashes: crashes,
            lease: Lease(token: Int64(number), deadline: start + leaseEnd)
        )
    }

    func settlement(_ number: UInt64, _ outcome: Settlement.Outcome) -> Settlement {
        Settlement(messageKey: Digest128(high: 0, low: number), token: Int64(number), outcome: outcome)
    }

    /// Starts the next attempt and names it; nil where there is none.
    func run(_ machine: inout DispatchStateMachine, at now: Duration = .zero) -> DispatchStateMachine.RunID? {
        machine.begin(now: start + now)?.id
    }

    func started(_ deliveries: Delivery...) throws -> (DispatchStateMachine, DispatchStateMachine.RunID) {
        var machine = machine()
        #expect(machine.claimed(deliveries, hasMore: false, now: start) == [])
        let id = try #require(run(&machine))
        return (machine, id)
    }

    // MARK: Slots

    @Test("no more attempts run at once than the handler wants")
    func concurrency() throws {
        var machine = machine(concurrency: 2)
        _ = machine.claimed((1...3).map { delivery($0) }, hasMore: false, now: start)
        let first = try #require(run(&machine))
        #expect(run(&machine) != nil)
        #expect(run(&machine) == nil)
        _ = machine.finished(first, .verdict(.done), now: start, random: 1)
        #expect(run(&machine) != nil)
    }

    @Test("a delivery whose lease has nearly ended while it waited is not begun")
    func leaseEnded() throws {
        var machine = machine()
        _ = machine.claimed([delivery(1, leaseEnd: .seconds(6)), delivery(2)], hasMore: false, now: start)
        let begun = machine.begin(now: start + .seconds(1))
        let attempt = try #require(begun)
        #expect(attempt.delivery.messageKey.low == 2)
    }

    // MARK: Outcomes

    @Test("what each verdict asks of the table")
    func verdicts() throws {
        let cases: [(HandlerVerdict, AttemptOutcome, Settlement.Outcome)] = [
            (.done, .done, .done),
            (.reject(failure), .rejected, .dead(failure, isCounted: true)),
            (.retry(after: nil, failure), .retry, .retry(after: .seconds(1), failure)),
            (.retry(after: .seconds(9), failure), .retry, .retry(after: .seconds(9), failure)),
            (.down(after: nil, failure), .retry, .retry(after: .seconds(1), failure)),
            (.down(after: .seconds(9), hold: .seconds(9), failure), .retry, .retry(after: .seconds(9), failure)),
            (.unavailable(after: .seconds(7), failure), .released, .release(after: .seconds(7), noting: failure)),
            (.unavailable(after: nil, failure), .released, .release(after: .seconds(4), noting: failure)),
            (.interrupted(failure), .released, .release(after: .seconds(4), noting: failure)),
            (.pause(failure), .released, .release(after: .zero, noting: failure)),
            (.cancelled, .released, .release(after: .zero)),
        ]
        for (verdict, ending, outcome) in cases {
            var (machine, id) = try started(delivery(1))
            let action = machine.finished(id, .verdict(verdict), now: start, random: 1)
            #expect(action.ending == ending)
            #expect(action.settlement == settlement(1, outcome))
        }
    }

    @Test("the last attempt sets the delivery aside")
    func exhausted() throws {
        var (machine, id) = try started(delivery(1, attempts: 2))
        let action = machine.finished(id, .verdict(.retry(after: nil, failure)), now: start, random: 1)
        #expect(action.ending == .exhausted)
        #expect(action.settlement == settlement(1, .dead(failure, isCounted: true)))
    }

    @Test("another retry policy decides about failures from now on, and about nothing before")
    func adoptedPolicy() throws {
        var (machine, id) = try started(delivery(1, attempts: 1))
        machine.adopt(RetryPolicy(maxAttempts: 2, initial: .seconds(1), maximum: .seconds(60)))
        let action = machine.finished(id, .verdict(.retry(after: nil, failure)), now: start, random: 1)
        #expect(action.ending == .exhausted)
        machine.adopt(RetryPolicy(maxAttempts: 9, initial: .seconds(7), maximum: .seconds(7)))
        _ = machine.claimed([delivery(2, attempts: 2)], hasMore: false, now: start)
        let next = try #require(run(&machine))
        let again = machine.finished(next, .verdict(.retry(after: nil, failure)), now: start, random: 1)
        #expect(again.settlement?.outcome == .retry(after: .seconds(7), failure))
    }

    @Test("a row that the handler's own transaction settled is not settled again, nor one that is lost")
    func settledElsewhere() throws {
        var (machine, id) = try started(delivery(1), delivery(2))
        let first = machine.finished(id, .settled, now: start, random: 1)
        #expect(first.settlement == nil)
        let second = try #require(run(&machine))
        let action = machine.finished(second, .lost, now: start, random: 1)
        #expect(action.ending == nil)
        #expect(action.settlement == nil)
        let again = machine.finished(second, .verdict(.done), now: start, random: 1)
        #expect(again.ending == nil)
    }

    @Test("an attempt cancelled for its time counts as failed")
    func timeout() throws {
        var (machine, id) = try started(delivery(1))
        #expect(machine.overdue(now: start + .seconds(29)) == [])
        #expect(machine.overdue(now: start + .seconds(30)) == [id])
        #expect(machine.overdue(now: start + .seconds(31)) == [])
        let action = machine.finished(id, .verdict(.cancelled), now: start + .seconds(31), random: 1)
        #expect(action.ending == .retry)
        #expect(action.settlement == settlement(1, .retry(after: .seconds(1), .timedOut)))
    }

    // MARK: Leases

    @Test("leases are extended while their attempts run, and a lost one voids the outcome")
    func heartbeat() throws {
        var (machine, id) = try started(delivery(1), delivery(2))
        #expect(machine.leasesToExtend(now: start).isEmpty)
        let references = machine.leasesToExtend(now: start + .seconds(25))
        #expect(Set(references.map(\.token)) == [1, 2])
        let held = Set(references.filter { $0.token == 2 })
        #expect(machine.extended(references, held: held, until: start + .seconds(85)) == [id])
        let action = machine.finished(id, .verdict(.done), now: start + .seconds(26), random: 1)
        #expect(action.ending == nil)
        #expect(action.settlement == nil)
        // The other's lease goes on.
        #expect(run(&machine, at: .seconds(70)) != nil)
    }

    @Test("a waiting delivery whose lease was lost is dropped")
    func lostWhileWaiting() {
        var machine = machine()
        _ = machine.claimed([delivery(1)], hasMore: false, now: start)
        let references = machine.leasesToExtend(now: start + .seconds(25))
        #expect(machine.extended(references, held: [], until: start + .seconds(85)) == [])
        #expect(run(&machine, at: .seconds(26)) == nil)
        #expect(machine.isIdle)
    }

    @Test("an attempt that does not heed its cancellation, however late, loses its lease", arguments: [30, 50])
    func hanging(_ seconds: Int) throws {
        var (machine, id) = try started(delivery(1))
        let (end, reference) = (start + .seconds(seconds), machine.leasesToExtend(now: start + .seconds(25)))
        _ = machine.extended(reference, held: Set(reference), until: start + .seconds(85))
        #expect(machine.overdue(now: end) == [id])
        #expect(machine.hanging(now: end + .seconds(9)) == 0)
        #expect(machine.hanging(now: end + .seconds(10)) == 1)
        #expect(machine.leasesToExtend(now: start + .seconds(80)).isEmpty)
    }

    // MARK: Crashes

    @Test("what workers keep dying over is set aside without another attempt")
    func crashes() {
        var machine = machine()
        let settlements = machine.claimed(
            [delivery(1, crashes: 4), delivery(2, crashes: 5)],
            hasMore: false,
            now: start
        )
        #expect(settlements == [settlement(2, .dead(.crashed(times: 5), isCounted: false))])
        #expect(machine.hasSuspect)
        let id = run(&machine)
        #expect(machine.hasSuspect)
        if let id { _ = machine.finished(id, .verdict(.done), now: start, random: 1) }
        #expect(!machine.hasSuspect)
    }

    @Test("what may crash the worker is taken alone, then twice as many each time that all did no harm")
    func suspects() throws {
        var machine = machine(concurrency: 100)
        let request = ClaimRequest(handler: "h", limit: 500, lease: .seconds(60), owner: "a")
        var number: UInt64 = 0
        for expected in [1, 2, 4, 8, 16, 32, 64, 64] {
            let claims = machine.suspectClaims(like: request)
            #expect(claims.map(\.limit) == (expected == 1 ? [1] : [expected, 1]))
            #expect(claims.allSatisfy { $0.isForSuspects })
            // Several only of those that no worker has died over since.
            #expect(claims.dropLast().allSatisfy { $0.mostCrashes == 2 } && claims.last?.mostCrashes == .max)
            let deliveries = (0..<expected).map { _ in
                number += 1
                return delivery(number, crashes: 2)
            }
            _ = machine.claimed(deliveries, hasMore: false, now: start)
            for _ in deliveries {
                #expect(machine.suspectClaims(like: request).isEmpty)
                let id = try #require(run(&machine))
                _ = machine.finished(id, .verdict(.retry(after: nil, failure)), now: start, random: 1)
            }
        }
        machine.foundNoSuspects()
        #expect(machine.suspectClaims(like: request).map(\.limit) == [1])
    }

    @Test("a handler whose messages can't crash the worker takes them as others, and twice as long")
    func contained() throws {
        let function = try #require(SQLFunction("app.f"))
        let registration = HandlerRegistration(name: "h", categories: .all, body: .function(function, batch: 1))
        var machine = DispatchStateMachine(LaneSettings(registration, DispatchSettings()))
        let settlements = machine.claimed(
            [delivery(1, crashes: 4), delivery(2, crashes: 9), delivery(3, crashes: 10)],
            hasMore: false,
            now: start
        )
        #expect(settlements == [settlement(3, .dead(.crashed(times: 10), isCounted: false))])
        #expect(machine.hasSuspect)
    }

    @Test("a delivery without a message is set aside")
    func missing() {
        var machine = machine()
        var gone = delivery(1)
        gone.content = .missing
        #expect(
            machine.claimed([gone], hasMore: false, now: start) == [settlement(1, .dead(.missing, isCounted: false))]
        )
        #expect(machine.isIdle)
    }

    // MARK: Fresh messages

    @Test("places are reserved for a batch before it commits, and given back")
    func reservation() {
        var machine = machine { $0.capacity = 100 }
        #expect(machine.reserve(60) == true)
        #expect(machine.reserve(60) == false)
        #expect(machine.handOver([], reserved: 60, now: start) == [])
        #expect(machine.reserve(60) == true)
        #expect(machine.handOver([delivery(1)], reserved: 60, now: start) == [])
        #expect(run(&machine) != nil)
    }

    @Test("a handler that goes by device takes nothing past the table")
    func orderedReserves() {
        var machine = machine(ordering: .device)
        #expect(machine.reserve(1) == false)
    }

    @Test("what is handed over after a pause or a stop is given back")
    func lateHandOver() {
        var paused = machine()
        #expect(paused.reserve(1) == true)
        #expect(paused.setPaused(true) == [])
        #expect(paused.handOver([delivery(1)], reserved: 1, now: start) == [settlement(1, .release(after: .zero))])
        #expect(paused.reserve(1) == false)
        var stopped = machine()
        #expect(stopped.reserve(1) == true)
        _ = stopped.stop()
        #expect(stopped.handOver([delivery(1)], reserved: 1, now: start) == [settlement(1, .release(after: .zero))])
        #expect(stopped.reserve(1) == false)
        #expect(stopped.claimed([delivery(2)], hasMore: false, now: start) == [settlement(2, .release(after: .zero))])
    }

    @Test("how much may wait follows the handler's speed")
    func adapts() throws {
        var machine = machine()
        for number: UInt64 in 1...3 {
            _ = machine.claimed([delivery(number)], hasMore: false, now: start)
            let id = try #require(run(&machine))
            _ = machine.finished(id, .verdict(.done), now: start, random: 1)
        }
        for _ in 0..<10 {
            _ = machine.claimed([delivery(9)], hasMore: false, now: start)
            machine.tick()
        }
        #expect(machine.reserve(20) == false)
        #expect(machine.reserve(16) == true)
    }

    @Test("claims take half of the bytes that may wait, and wait until so many are free")
    func claimedBytes() throws {
        var machine = machine()
        let most = DispatchSettings().waitingBytes
        func large(_ number: UInt64, _ bytes: Int) -> Delivery {
            var large = delivery(number)
            large.content = .stored(.sample(category: "c", data: "\"" + String(repeating: "x", count: bytes) + "\""))
            return large
        }
        #expect(machine.claimLimit(now: start) == 500 && machine.claimBytes == most / 2)
        // The last of a claim may go over it, and one that is larger than all gets through.
        _ = machine.claimed([large(1, 1_000), large(2, 2 * most)], hasMore: true, now: start)
        #expect(machine.claimLimit(now: start) == 0 && machine.claimBytes < 0)
        let first = try #require(run(&machine))
        _ = machine.finished(first, .verdict(.done), now: start, random: 1)
        #expect(machine.claimLimit(now: start) == 0)
        let second = try #require(run(&machine))
        #expect(machine.claimLimit(now: start) == 500 && machine.claimBytes == most / 2)
        _ = machine.finished(second, .verdict(.done), now: start, random: 1)
        _ = machine.claimed([large(3, most / 4), large(4, most / 4), large(5, most / 4)], hasMore: true, now: start)
        #expect(machine.claimLimit(now: start) == 0)
        let third = try #require(run(&machine))
        #expect(machine.finished(third, .verdict(.done), now: start, random: 1).wantsClaim == false)
        _ = try #require(run(&machine))
        #expect(machine.claimLimit(now: start) > 0 && machine.claimBytes == most / 2)
    }

    @Test("many handlers share the memory that four may fill", arguments: [(1, 8), (4, 8), (8, 4), (100, 1)])
    func shares(handlers: Int, megabytes: Int) {
        #expect(DispatchSettings().shared(by: handlers).waitingBytes == megabytes << 20)
    }

    // MARK: Pausing and stopping

    @Test("a pause hands waiting deliveries back and lets running ones end")
    func pause() throws {
        var (machine, id) = try started(delivery(1), delivery(2))
        #expect(machine.setPaused(true) == [settlement(2, .release(after: .zero))])
        #expect(machine.claimLimit(now: start) == 0)
        let ended = machine.finished(id, .verdict(.done), now: start, random: 1)
        #expect(ended.settlement == settlement(1, .done))
        #expect(machine.setPaused(false) == [])
        #expect(machine.claimLimit(now: start) > 0)
    }

    @Test("a handler that asks for it is paused at once")
    func pausesItself() throws {
        var (machine, id) = try started(delivery(1), delivery(2))
        let action = machine.finished(id, .verdict(.pause(failure)), now: start, random: 1)
        #expect(action.pause == failure)
        #expect(action.released == [settlement(2, .release(after: .zero))])
        #expect(machine.isPaused)
    }

    @Test("a stop ends idle slots, and what never ends is handed back without being counted")
    func stop() throws {
        var (machine, id) = try started(delivery(1), delivery(2))
        #expect(machine.stop() == [settlement(2, .release(after: .zero))])
        #expect(machine.begin(now: start)?.id == nil)
        #expect(machine.isStopping)
        #expect(machine.setPaused(false) == [])
        #expect(machine.abandon() == [settlement(1, .release(after: .zero))])
        let late = machine.finished(id, .verdict(.done), now: start, random: 1)
        #expect(late.settlement == nil)
        #expect(machine.isIdle)
    }

    // MARK: Breaker

    @Test("a handler that is down gets nothing for a while, and is then probed with one delivery")
    func breaker() throws {
        var machine = machine()
        _ = machine.claimed((1...5).map { delivery($0) }, hasMore: false, now: start)
        var action: DispatchStateMachine.FinishAction?
        for _ in 0..<3 {
            let id = try #require(run(&machine))
            action = machine.finished(id, .verdict(.down(after: nil, failure)), now: start, random: 1)
        }
        #expect(action?.transition == .opened(for: .seconds(2)))
        #expect(action?.released.count == 2)
        #expect(machine.claimLimit(now: start + .seconds(1)) == 0)
        #expect(machine.reserve(1) == false)
        let later = Duration.seconds(2)
        #expect(machine.claimLimit(now: start + later) == 1)
        _ = machine.claimed([delivery(6), delivery(7)], hasMore: false, now: start + later)
        let probe = try #require(run(&machine, at: later))
        #expect(run(&machine, at: later) == nil)
        let probed = machine.finished(probe, .verdict(.done), now: start + later, random: 1)
        #expect(probed.transition == .closed)
        #expect(run(&machine, at: later) != nil)
    }
}
