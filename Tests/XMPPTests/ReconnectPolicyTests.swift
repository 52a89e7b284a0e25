import Testing

@testable import XMPP

@Suite("When a slot connects again")
struct ReconnectPolicyTests {
    @Test("a session that worked is replaced at once")
    func aWorkingSessionReconnectsAtOnce() {
        var policy = ReconnectPolicy()
        _ = policy.delay(after: .failed, random: 1)
        #expect(policy.delay(after: .session(bound: .seconds(10), error: nil), random: 1) == .zero)
        #expect(policy.failures == 0)
        #expect(policy.delay(after: .session(bound: .seconds(10), error: .systemShutdown), random: 1) == .zero)
        #expect(
            policy.delay(after: .session(bound: .milliseconds(9_999), error: nil), random: 0.5) == .milliseconds(500)
        )
    }

    @Test("failures back off exponentially with full jitter")
    func failuresBackOffWithFullJitter() {
        var policy = ReconnectPolicy()
        let delays = (0..<9).map { _ in policy.delay(after: .failed, random: 1) }
        #expect(delays == [1, 2, 4, 8, 16, 32, 60, 60, 60].map { .seconds($0) })
        #expect(policy.delay(after: .failed, random: 0.25) == .seconds(15))
        // Never a hot loop, whatever the jitter.
        for random in [0, -1, .nan, .infinity, 2] {
            let delay = policy.delay(after: .failed, random: random)
            #expect(delay >= .milliseconds(100) && delay <= .seconds(60))
        }
        for _ in 0..<10_000 { _ = policy.delay(after: .failed, random: 1) }
        #expect(policy.delay(after: .failed, random: 1) == .seconds(60))
    }

    @Test("a session that can be resumed is tried at once, twice more within two seconds, and not too late")
    func resumableSessions() {
        let lost = ReconnectPolicy.Ending.session(bound: .seconds(2), error: nil)
        var policy = ReconnectPolicy()
        for _ in 0..<2 { _ = policy.delay(after: .failed, random: 1) }
        for _ in 0..<2 {
            #expect(policy.delay(after: lost, held: .seconds(60), random: 1) == .zero)
            #expect(policy.delay(after: .failed, held: .seconds(59), random: 1) == .seconds(1))
            #expect(policy.delay(after: .failed, held: .seconds(58), random: 0) == .milliseconds(100))
            #expect(policy.delay(after: .failed, held: .seconds(50), random: 1) >= .seconds(1))
            for _ in 0..<9 { _ = policy.delay(after: .failed, random: 1) }
            #expect(policy.delay(after: .failed, held: .seconds(20), random: 1) == .seconds(10))
            #expect(policy.delay(after: .failed, held: .milliseconds(1), random: 1) == .milliseconds(100))
            #expect(policy.delay(after: .failed, held: .zero, random: 1) == .seconds(60))
            // One that is lost as soon as it is resumed is not resumed in a loop; one that worked is as good as new.
            #expect(policy.delay(after: lost, held: .seconds(5), random: 1) == .seconds(60))
            let working = ReconnectPolicy.Ending.session(bound: .seconds(10), error: nil)
            #expect(policy.delay(after: working, held: .seconds(60), random: 1) == .zero && policy.failures == 0)
            #expect(policy.delay(after: working, random: 1) == .zero)
        }
    }

    @Test(
        "a stream that was resumed in vain, or not, is replaced at once, and not in a loop, whatever is between",
        arguments: [ReconnectPolicy.Ending.unheard, .unresumed]
    )
    func unheard(_ ending: ReconnectPolicy.Ending) {
        var policy = ReconnectPolicy()
        let lost = ReconnectPolicy.Ending.session(bound: .zero, error: nil)
        var delays: [Duration] = []
        for _ in 0..<5 {
            delays.append(policy.delay(after: lost, held: .seconds(60), random: 1))
            delays.append(policy.delay(after: ending, random: 1))
        }
        #expect(
            delays.prefix(2) == [.zero, .zero] && delays.dropFirst(2).allSatisfy { $0 >= .seconds(1) },
            "\(delays)"
        )
    }

    @Test("policy-violation, see-other-host and conflict are failures however long the session was")
    func someEndsAreFailuresHoweverLongTheSessionWas() {
        for error in [StreamErrorCondition.policyViolation, .seeOtherHost] {
            var policy = ReconnectPolicy()
            #expect(policy.delay(after: .session(bound: .seconds(9_999), error: error), random: 1) == .seconds(1))
            #expect(policy.delay(after: .session(bound: .seconds(9_999), error: error), random: 1) == .seconds(2))
        }
        var policy = ReconnectPolicy()
        #expect(policy.delay(after: .session(bound: .seconds(9_999), error: .conflict), random: 0) >= .seconds(5))
        #expect(policy.delay(after: .session(bound: .seconds(9_999), error: .conflict), random: 1) == .seconds(7))
    }

    @Test("bad XML after stanzas is the first failure again and again")
    func badXMLAfterStanzasIsAlwaysTheFirstFailure() {
        var policy = ReconnectPolicy()
        for _ in 0..<5 { _ = policy.delay(after: .failed, random: 1) }
        for _ in 0..<5 { #expect(policy.delay(after: .violated(afterStanzas: true), random: 1) == .seconds(1)) }
        #expect(policy.delay(after: .violated(afterStanzas: true), random: 0) == .milliseconds(100))
        // As the first thing on a stream it comes again at once, and reconnecting helps nobody.
        #expect(policy.delay(after: .violated(afterStanzas: false), random: 1) == .seconds(2))
        #expect(policy.delay(after: .violated(afterStanzas: false), random: 1) == .seconds(4))
    }

    @Test("a draining connection is replaced at once, but not in a loop")
    func aDrainingConnectionIsReplacedAtOnceButNotInALoop() {
        var policy = ReconnectPolicy()
        #expect(policy.delay(after: .draining(bound: .seconds(1)), random: 1) == .zero)
        #expect(policy.delay(after: .draining(bound: .seconds(1)), random: 1) == .seconds(2))
        #expect(policy.delay(after: .draining(bound: .seconds(60)), random: 1) == .zero)
        #expect(policy.failures == 0)
    }
}
