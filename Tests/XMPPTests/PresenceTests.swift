import Testing
import XMLWire

@testable import XMPP

@Suite("Presence: whether a standard server sends or stores")
struct PresenceTests {
    @Test("a pause before stream management is decided changes nothing")
    func aPauseBeforeTheServersAnswerChangesNothing() throws {
        var session = try makeSession(.offered)
        #expect(session.readingPaused(true, now: 1) == .none)
        #expect(session.readingPaused(false, now: 99_000_000_000) == .none)
        let answer = try session.hear(Said.enabled)
        guard case .managed(.enabled, let bytes) = answer else { throw Unexpected("not enabled") }
        #expect(String(decoding: bytes, as: UTF8.self) == "<presence/>")
    }

    @Test("every change is told once, and never to a CCS")
    func presenceInEveryState() {
        for offer in [StreamManagement.Offer.unused, .missing, .offered] {
            var presence = Presence(offer)
            #expect(presence.isAvailable == (offer == .missing))
            #expect(presence.becomeUnavailable() == (offer == .missing))
            #expect(presence.becomeAvailable() == (offer != .unused))
            #expect(presence.becomeAvailable() == false)
            #expect(presence.isAvailable == (offer != .unused))
            #expect(presence.becomeUnavailable() == (offer != .unused))
            #expect(presence.becomeUnavailable() == false)
        }
    }

    @Test("a long pause has a standard server store messages; reading again brings them")
    func longPauses() throws {
        let second: UInt64 = 1_000_000_000
        for offer in [StreamManagement.Offer.missing, .offered] {
            var session = try makeSession(offer)
            if offer == .offered {
                _ = try session.hear(Said.enabled)
            }
            _ = session.start()
            // A short one: nothing is said.
            guard case .wait(let short) = session.readingPaused(true, now: 1 * second) else {
                throw Unexpected("no timer")
            }
            #expect(short.delay == .seconds(10))
            #expect(session.readingPaused(false, now: 2 * second) == .none)
            guard case .wait(let rest) = session.timerFired(short.id, now: 11 * second) else {
                throw Unexpected("no keep-alive")
            }
            // The pause of a second does not count.
            #expect(rest.delay == .seconds(20))
            // A long one, told once.
            guard case .wait(let long) = session.readingPaused(true, now: 20 * second) else {
                throw Unexpected("no timer")
            }
            #expect(session.timerFired(rest.id, now: 29 * second) == .none)
            guard case .withdraw(let bytes, let next) = session.timerFired(long.id, now: 30 * second) else {
                throw Unexpected("still available")
            }
            #expect(String(decoding: bytes, as: UTF8.self) == "<presence type=\"unavailable\"/>")
            guard case .wait = session.timerFired(next.id, now: 60 * second) else {
                throw Unexpected("dead while paused")
            }
            #expect(session.readingPaused(false, now: 70 * second) == .send(Array("<presence/>".utf8)))
            #expect(session.readingPaused(false, now: 71 * second) == .none)
            // At the end there is nothing to come back for.
            _ = session.readingPaused(true, now: 80 * second)
            _ = session.close()
            #expect(session.readingPaused(false, now: 100 * second) == .none)
        }
        var ccs = try makeSession()
        let timer = ccs.start()
        #expect(ccs.readingPaused(true, now: 1 * second) == .none)
        guard case .wait = ccs.timerFired(timer.id, now: 100 * second) else { throw Unexpected("a word to a CCS") }
        #expect(ccs.readingPaused(false, now: 101 * second) == .none)
    }
}
