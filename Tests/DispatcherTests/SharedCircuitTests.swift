import Telemetry
import Testing
import UpstreamKit
import Vocabulary

@testable import Dispatcher

@Suite("circuits of other workers")
struct SharedCircuitTests {
    private let start = ContinuousClock.now
    private let failure = HandlerFailure(group: "boom", detail: "it went boom")

    private func machine() -> DispatchStateMachine {
        let handler = ClosureHandler { _, _ in .done }
        var settings = DispatchSettings()
        settings.breaker.threshold = 2
        settings.breaker.pause = Backoff(initial: .seconds(10), maximum: .seconds(10))
        return DispatchStateMachine(
            LaneSettings(HandlerRegistration("h", categories: .all, handler: handler), settings)
        )
    }

    private func deliveries(_ count: UInt64) -> [Delivery] { (1...count).map { .row($0) } }

    /// Begins an attempt and ends it.
    private func attempt(
        _ machine: inout DispatchStateMachine,
        _ verdict: HandlerVerdict,
        at now: Duration = .zero
    ) -> DispatchStateMachine.FinishAction? {
        guard let attempt = machine.begin(now: start + now) else { return nil }
        return machine.finished(attempt.id, .verdict(verdict), now: start + now, random: 1)
    }

    private func control(_ change: CircuitChange?) -> HandlerControl {
        var control = HandlerControl(handler: "h")
        control.circuit = change
        return control
    }

    private var down: HandlerVerdict { .down(after: nil, failure) }

    @Test("A circuit that opens or closes by its own evidence is told once; what the table answers is not news")
    func told() {
        var machine = machine()
        _ = machine.claimed(deliveries(9), hasMore: false, now: start)
        #expect(attempt(&machine, down)?.isCircuitUntold == false && machine.untoldCircuit == nil)
        #expect(attempt(&machine, down)?.isCircuitUntold == true && machine.untoldCircuit == true)
        machine.circuitTold(CircuitChange(isOpen: true, id: 1))
        #expect(machine.untoldCircuit == nil)
        #expect(machine.adopt(control(CircuitChange(isOpen: true, id: 1)), now: start).changes == [])
        // A probe that fails is no news.
        _ = machine.claimed(deliveries(1), hasMore: false, now: start + .seconds(10))
        #expect(attempt(&machine, down, at: .seconds(10))?.isCircuitUntold == false)
        _ = machine.claimed(deliveries(1), hasMore: false, now: start + .seconds(30))
        #expect(attempt(&machine, .done, at: .seconds(30))?.isCircuitUntold == true)
        #expect(machine.untoldCircuit == false)
    }

    @Test("Another worker's open circuit takes one attempt, not twenty failures, and what that finds is not told")
    func doubted() {
        var machine = machine()
        let open = control(CircuitChange(isOpen: true, id: 7))
        _ = machine.claimed(deliveries(9), hasMore: false, now: start)
        #expect(machine.adopt(open, now: start).changes == [.doubted(isOpen: true)])
        #expect(machine.adopt(open, now: start).changes == [])
        let probe = machine.begin(now: start)
        #expect(probe != nil && machine.begin(now: start) == nil)
        let action = machine.finished(probe?.id ?? 0, .verdict(down), now: start, random: 1)
        #expect(action.transition == .opened(for: .seconds(10)) && action.released.count == 8)
        #expect(!action.isCircuitUntold && machine.untoldCircuit == nil)
        // Elsewhere it works again.
        #expect(
            machine.adopt(control(CircuitChange(isOpen: false, id: 8)), now: start).changes == [.doubted(isOpen: false)]
        )
        #expect(machine.claimLimit(now: start) == 1)
        _ = machine.claimed(deliveries(1), hasMore: false, now: start)
        let answered = attempt(&machine, .done)
        #expect(answered?.transition == .closed && answered?.isCircuitUntold == false)
    }

    @Test("A worker in which the handler works goes on after one attempt")
    func confirmed() {
        var machine = machine()
        _ = machine.claimed(deliveries(3), hasMore: false, now: start)
        _ = machine.adopt(control(CircuitChange(isOpen: true, id: 7)), now: start)
        #expect(attempt(&machine, .done)?.transition == .confirmed)
        #expect(machine.begin(now: start) != nil && machine.begin(now: start) != nil)
        // Nor does what another one says count once this one has found out for itself.
        #expect(machine.adopt(control(CircuitChange(isOpen: false, id: 8)), now: start).changes == [])
    }

    @Test("A worker without messages doubts for nobody to see, and no longer than the others")
    func idle() {
        var machine = machine()
        _ = machine.adopt(control(CircuitChange(isOpen: true, id: 7)), now: start)
        #expect(machine.isAboutToProbe(now: start) && machine.breaker.phase(now: start).0 == .closed)
        let closed = control(CircuitChange(isOpen: false, id: 8))
        #expect(machine.adopt(closed, now: start).changes == [.doubted(isOpen: false)])
        #expect(machine.breaker.isClosed && !machine.breaker.isDoubted && machine.untoldCircuit == nil)
        // While an attempt decides, it does.
        _ = machine.adopt(control(CircuitChange(isOpen: true, id: 9)), now: start)
        _ = machine.claimed(deliveries(2), hasMore: false, now: start)
        let probe = machine.begin(now: start)
        #expect(machine.adopt(control(CircuitChange(isOpen: false, id: 10)), now: start).changes == [])
        let action = machine.finished(probe?.id ?? 0, .verdict(down), now: start, random: 1)
        #expect(action.transition == .opened(for: .seconds(10)))
        #expect(machine.breaker.phase(now: start).0 == .open)
    }

    @Test("When the worker that told of it has gone, so has the doubt; what was found here stays")
    func gone() {
        var machine = machine()
        _ = machine.adopt(control(CircuitChange(isOpen: true, id: 7)), now: start)
        #expect(machine.breaker.isDoubted && !machine.breaker.isClosed)
        #expect(machine.adopt(control(nil), now: start).changes == [.doubted(isOpen: false)])
        #expect(machine.breaker.isClosed && !machine.breaker.isDoubted && machine.untoldCircuit == nil)
        _ = machine.claimed(deliveries(9), hasMore: false, now: start)
        for _ in 1...2 { _ = attempt(&machine, down) }
        machine.circuitTold(CircuitChange(isOpen: true, id: 8))
        #expect(machine.adopt(control(nil), now: start).changes == [])
        #expect(machine.breaker.phase(now: start).0 == .open)
    }

    @Test("What an operator resumes is told to be closed, also if it was not yet told to be open")
    func resumed() {
        for isTold in [true, false] {
            var machine = machine()
            _ = machine.adopt(control(nil), now: start)
            _ = machine.claimed(deliveries(9), hasMore: false, now: start)
            for _ in 1...2 { _ = attempt(&machine, down) }
            if isTold { machine.circuitTold(CircuitChange(isOpen: true, id: 1)) }
            var resumed = control(isTold ? CircuitChange(isOpen: true, id: 1) : nil)
            resumed.resumption = 1
            #expect(machine.adopt(resumed, now: start).changes == [.resumed])
            #expect(machine.breaker.isClosed && machine.untoldCircuit == false)
        }
    }

    @Test("What was found here before the table was read is told, not doubted")
    func untold() {
        var machine = machine()
        _ = machine.claimed(deliveries(9), hasMore: false, now: start)
        for _ in 1...2 { _ = attempt(&machine, down) }
        #expect(machine.adopt(control(CircuitChange(isOpen: false, id: 8)), now: start).changes == [])
        #expect(machine.untoldCircuit == true && !machine.breaker.isClosed)
    }
}
