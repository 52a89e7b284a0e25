import Testing
import Vocabulary

@Suite("back-off")
struct BackoffTests {
    @Test("ceilings double from the first to the maximum and stay there")
    func ceilings() {
        let backoff = Backoff(initial: .seconds(1), maximum: .seconds(60))
        #expect((1...9).map { backoff.ceiling(attempt: $0) } == [1, 2, 4, 8, 16, 32, 60, 60, 60].map { .seconds($0) })
        #expect(backoff.ceiling(attempt: .max) == .seconds(60))
        let database = Backoff(initial: .milliseconds(250), maximum: .seconds(10))
        let waits = (1...8).map { database.ceiling(attempt: $0) }
        #expect(waits == [250, 500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000].map { .milliseconds($0) })
    }

    @Test("the jitter is the whole delay, and what is no part counts as the nearer end")
    func jitter() {
        let backoff = Backoff(initial: .seconds(1), maximum: .seconds(60))
        #expect(backoff.delay(attempt: 3, random: 0) == .zero)
        #expect(backoff.delay(attempt: 3, random: 0.5) == .seconds(2))
        #expect(backoff.delay(attempt: 3, random: 1) == .seconds(4))
        #expect(backoff.delay(attempt: 3, random: -1) == .zero)
        #expect(backoff.delay(attempt: 3, random: 7) == .seconds(4))
        for odd in [Double.nan, .infinity, -.infinity, .signalingNaN] {
            #expect(backoff.delay(attempt: 3, random: odd) == .seconds(4))
        }
    }

    @Test("a minimum holds even for the luckiest number")
    func minimum() {
        let backoff = Backoff(initial: .seconds(1), maximum: .seconds(60), minimum: .milliseconds(100))
        #expect(backoff.delay(attempt: 1, random: 0) == .milliseconds(100))
        #expect(backoff.delay(attempt: 1, random: 0.5) == .milliseconds(500))
    }

    @Test("nothing overflows: neither the number of failures nor a bound of any size")
    func overflow() {
        let greatest = Duration.seconds(Int64.max)
        for attempt in [Int.min, -1, 0, 1, 2, 63, 64, 65, 1_000, .max] {
            for initial in [Duration.zero, .nanoseconds(1), .seconds(1), greatest / 2, greatest] {
                for maximum in [Duration.zero, .seconds(1), greatest - .seconds(1), greatest] {
                    let ceiling = Backoff(initial: initial, maximum: maximum).ceiling(attempt: attempt)
                    #expect(ceiling >= .zero && ceiling <= maximum)
                    #expect(attempt > 1 || ceiling == min(initial, maximum))
                }
            }
        }
    }

    @Test("a generator's delays lie between nothing and the ceiling, and differ")
    func generator() {
        var random = SeededGenerator(seed: 1)
        let backoff = Backoff(initial: .seconds(1), maximum: .seconds(8))
        let delays = (0..<100).map { _ in backoff.delay(attempt: 9, random: .random(in: 0...1, using: &random)) }
        #expect(delays.allSatisfy { $0 >= .zero && $0 <= .seconds(8) })
        #expect(Set(delays).count > 90)
        #expect(delays.contains { $0 < .seconds(2) } && delays.contains { $0 > .seconds(6) })
    }
}
