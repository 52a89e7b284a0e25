import Testing
import UpstreamKit
import XMLWire

@testable import XMPP

/// Whether the server sends or stores, by itself and in a session.
@Suite struct PresenceTests {
    private static func session(_ offer: StreamManagement.Offer, dialect: Dialect = .xmpp) throws -> Session {
        Session(
            configuration: SessionConfiguration(domain: "fcm.googleapis.com", idPrefix: "r"),
            codec: try makeCodec(dialect: dialect),
            stream: BoundStream(
                address: try #require(JID("1234567890@fcm.googleapis.com/r")),
                greeting: [],
                management: offer
            ),
            now: 0
        )
    }

    @Test func aPauseBeforeTheServersAnswerChangesNothing() throws {
        var session = try PresenceTests.session(.offered)
        #expect(session.readingPaused(true, now: 1) == .none)
        #expect(session.readingPaused(false, now: 99_000_000_000) == .none)
        let answer = session.stanza(try stanza("<enabled xmlns='urn:xmpp:sm:3'/>"), receivedAt: 0, parsedAt: 0)
        guard case .managed(.enabled, let bytes) = answer else { throw Unexpected("not enabled") }
        #expect(String(decoding: bytes, as: UTF8.self) == "<presence/>")
    }

    @Test func presenceInEveryState() {
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
            var session = try PresenceTests.session(offer)
            if offer == .offered {
                _ = session.stanza(try stanza("<enabled xmlns='urn:xmpp:sm:3'/>"), receivedAt: 0, parsedAt: 0)
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
                throw Unexpected("still present")
            }
            #expect(String(decoding: bytes, as: UTF8.self) == "<presence type=\"unavailable\"/>")
            guard case .wait = session.timerFired(next.id, now: 60 * second) else {
                throw Unexpected("given up while paused")
            }
            #expect(session.readingPaused(false, now: 70 * second) == .send(Array("<presence/>".utf8)))
            #expect(session.readingPaused(false, now: 71 * second) == .none)
            // At the end there is nothing to come back for.
            _ = session.readingPaused(true, now: 80 * second)
            _ = session.close()
            #expect(session.readingPaused(false, now: 100 * second) == .none)
        }
        var ccs = try PresenceTests.session(.unused, dialect: .ccs)
        let timer = ccs.start()
        #expect(ccs.readingPaused(true, now: 1 * second) == .none)
        guard case .wait = ccs.timerFired(timer.id, now: 100 * second) else { throw Unexpected("a word to a CCS") }
        #expect(ccs.readingPaused(false, now: 101 * second) == .none)
    }
}
