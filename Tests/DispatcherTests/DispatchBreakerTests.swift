import Dispatcher
import Testing
import UpstreamKit
import Vocabulary

@Suite("circuit breaker")
struct DispatchBreakerTests {
    let start = ContinuousClock.now

    func settings(threshold: Int = 3) -> CircuitBreaker.Settings {
        var settings = CircuitBreaker.Settings()
        settings.threshold = threshold
        settings.pause = Backoff(initial: .seconds(10), maximum: .seconds(60))
        return settings
    }

    /// A breaker that has just opened for ten seconds.
    func opened() -> CircuitBreaker {
        var breaker = CircuitBreaker(settings())
        for _ in 0..<3 { _ = breaker.failed(isProbe: false, now: start, random: 1) }
        return breaker
    }

    @Test("failures in a row open it, a success in between starts the count again")
    func threshold() {
        var breaker = CircuitBreaker(settings())
        #expect(breaker.failed(isProbe: false, now: start, random: 1) == nil)
        #expect(breaker.failed(isProbe: false, now: start, random: 1) == nil)
        #expect(breaker.succeeded() == nil)
        #expect(breaker.failed(isProbe: false, now: start, random: 1) == nil)
        #expect(breaker.failed(isProbe: false, now: start, random: 1) == nil)
        #expect(breaker.failed(isProbe: false, now: start, random: 1) == .opened(for: .seconds(10)))
    }

    @Test("while open nothing passes; then one probe at a time, and its success closes")
    func probe() {
        var breaker = opened()
        #expect(breaker.begin(now: start + .seconds(9)) == .refused(until: start + .seconds(10)))
        #expect(breaker.begin(now: start + .seconds(10)) == .probe)
        #expect(breaker.begin(now: start + .seconds(10)) == .refused(until: nil))
        #expect(breaker.succeeded() == .closed)
        #expect(breaker.begin(now: start + .seconds(10)) == .pass)
    }

    @Test("a probe that fails opens it for longer, up to the maximum")
    func longer() {
        var breaker = opened()
        var now = start + .seconds(10)
        for seconds in [20, 40, 60, 60] {
            #expect(breaker.begin(now: now) == .probe)
            #expect(breaker.failed(isProbe: true, now: now, random: 1) == .reopened(for: .seconds(seconds)))
            now += .seconds(seconds)
        }
    }

    @Test("an operator closes it, whether it is open, held or half-open")
    func reset() {
        var open = opened()
        open.reset()
        #expect(open.begin(now: start) == .pass)
        var held = CircuitBreaker(settings())
        _ = held.held(for: .seconds(3_600), now: start)
        #expect(held.heldUntil == start + .seconds(3_600))
        held.reset()
        #expect(held.heldUntil == nil && held.begin(now: start) == .pass)
        var halfOpen = opened()
        _ = halfOpen.begin(now: start + .seconds(10))
        halfOpen.reset()
        // The probe's failure is one of the three that open it.
        #expect(halfOpen.failed(isProbe: true, now: start, random: 1) == nil)
        #expect(halfOpen.begin(now: start) == .pass)
    }

    @Test("a handler that asks for a pause gets it, and then a probe; answers to what began before don't end it")
    func held() {
        var breaker = CircuitBreaker(settings())
        #expect(breaker.held(for: .seconds(30), now: start) == .held(for: .seconds(30)))
        #expect(breaker.succeeded() == nil)
        #expect(breaker.failed(isProbe: false, now: start, random: 1) == nil)
        // Another attempt's answer may ask for more, never for less.
        #expect(breaker.held(for: .seconds(40), now: start) == nil)
        #expect(breaker.held(for: .seconds(5), now: start) == nil)
        #expect(breaker.begin(now: start + .seconds(39)) == .refused(until: start + .seconds(40)))
        let later = start + .seconds(40)
        #expect(breaker.begin(now: later) == .probe)
        #expect(breaker.held(for: .seconds(7), now: later) == .held(for: .seconds(7)))
        #expect(breaker.begin(now: later + .seconds(7)) == .probe)
        #expect(breaker.failed(isProbe: true, now: later, random: 1) == .reopened(for: .seconds(10)))
        #expect(breaker.succeeded() == .closed)
    }

    @Test("another worker's open circuit lets one attempt decide: an answer confirms this one, a failure opens it")
    func doubted() {
        var breaker = CircuitBreaker(settings())
        #expect(!breaker.doubt(isOpen: false) && breaker.admission(now: start) == .pass)
        #expect(breaker.doubt(isOpen: true) && breaker.isDoubted)
        #expect(breaker.doubt(isOpen: true) == false)
        #expect(breaker.begin(now: start) == .probe && breaker.begin(now: start) == .refused(until: nil))
        #expect(breaker.succeeded(isProbe: true) == .confirmed)
        #expect(!breaker.isDoubted && breaker.begin(now: start) == .pass)
        #expect(breaker.doubt(isOpen: true) && breaker.begin(now: start) == .probe)
        // Attempts that began before say nothing; an answer does.
        #expect(breaker.failed(isProbe: false, now: start, random: 1) == nil)
        #expect(breaker.failed(isProbe: true, now: start, random: 1) == .opened(for: .seconds(10)))
        #expect(!breaker.isDoubted && !breaker.doubt(isOpen: true))
        // It works elsewhere: the probe needs no pause before it, and a failure makes the next one longer.
        #expect(breaker.doubt(isOpen: false) && breaker.begin(now: start) == .probe)
        #expect(breaker.failed(isProbe: true, now: start, random: 1) == .reopened(for: .seconds(20)))
        #expect(breaker.doubt(isOpen: false) && breaker.begin(now: start) == .probe)
        #expect(breaker.succeeded(isProbe: true) == .closed)
        // A pause that the handler asked for holds.
        _ = breaker.held(for: .seconds(30), now: start)
        #expect(!breaker.doubt(isOpen: false) && !breaker.doubt(isOpen: true))
        #expect(breaker.begin(now: start + .seconds(30)) == .probe && breaker.succeeded(isProbe: true) == .closed)
    }

    @Test("a probe without a verdict lets another begin")
    func abandoned() {
        var breaker = opened()
        #expect(breaker.begin(now: start + .seconds(10)) == .probe)
        breaker.probeAbandoned()
        #expect(breaker.begin(now: start + .seconds(10)) == .probe)
    }

    @Test("every state × every event of an attempt that began before")
    func late() {
        // Failures of attempts that began before it opened say nothing new.
        var open = opened()
        #expect(open.failed(isProbe: false, now: start, random: 1) == nil)
        open.probeAbandoned()
        #expect(open.admission(now: start) == .refused(until: start + .seconds(10)))
        #expect(open.succeeded() == .closed)

        var halfOpen = opened()
        _ = halfOpen.begin(now: start + .seconds(10))
        #expect(halfOpen.failed(isProbe: false, now: start, random: 1) == nil)
        #expect(halfOpen.admission(now: start + .seconds(10)) == .refused(until: nil))
        #expect(halfOpen.succeeded() == .closed)

        var closed = CircuitBreaker(settings())
        closed.probeAbandoned()
        #expect(closed.isClosed)
        #expect(closed.admission(now: start) == .pass)
    }

    @Test("the pause is never shorter than half of the longest")
    func jitter() {
        var breaker = CircuitBreaker(settings(threshold: 1))
        #expect(breaker.failed(isProbe: false, now: start, random: 0) == .opened(for: .seconds(5)))
    }
}

@Suite("retry decisions")
struct DispatchRetryTests {
    let policy = RetryPolicy(maxAttempts: 5, initial: .seconds(1), maximum: .seconds(6))

    @Test("delays double up to the maximum, and jitter takes any part of them")
    func delays() {
        let longest = (1...4).compactMap { policy.delay(failures: $0, requested: nil, random: 1) }
        #expect(longest == [1, 2, 4, 6].map { .seconds($0) })
        #expect(policy.delay(failures: 3, requested: nil, random: 0) == .zero)
        #expect(policy.delay(failures: 3, requested: nil, random: 0.25) == .seconds(1))
    }

    @Test("the last attempt gives up")
    func giveUp() {
        #expect(policy.delay(failures: 5, requested: .seconds(1), random: 1) == nil)
        #expect(RetryPolicy(maxAttempts: 1).delay(failures: 1, requested: nil, random: 1) == nil)
    }

    @Test("a requested wait is the least, and the maximum caps it")
    func requested() {
        #expect(policy.delay(failures: 1, requested: .seconds(3), random: 1) == .seconds(3))
        #expect(policy.delay(failures: 3, requested: .seconds(3), random: 1) == .seconds(4))
        #expect(policy.delay(failures: 1, requested: .seconds(900), random: 1) == .seconds(6))
    }
}
