import Testing

@testable import XMPP

@Suite("Presence: whether a standard server sends or stores")
struct PresenceTests {
    @Test("a pause before stream management is decided changes nothing")
    func aPauseBeforeTheServersAnswerChangesNothing() throws {
        var session = try makeSession(.offered)
        #expect(session.readingPaused(true, now: 1) == Session.Settlement())
        #expect(session.readingPaused(false, now: 99_000_000_000) == Session.Settlement())
        guard case .managed(.enabled) = try session.hear(Said.enabled) else { throw Unexpected("not enabled") }
    }

    @Test("every change is told once, and never to a CCS")
    func presenceInEveryState() {
        for offer in [StreamManagement.Offer.unused, .missing, .offered] {
            var presence = Presence(offer, priority: 127)
            let isUsed = offer != .unused
            #expect(presence.isAvailable == isUsed && presence.becomeAvailable() == nil)
            #expect(presence.becomeUnavailable().map(text) == (isUsed ? "<presence type=\"unavailable\"/>" : nil))
            #expect(presence.becomeUnavailable() == nil && !presence.isAvailable)
            let again = "<presence><priority>127</priority></presence>"
            #expect(presence.becomeAvailable().map(text) == (isUsed ? again : nil))
            #expect(presence.becomeAvailable() == nil && presence.isAvailable == isUsed)
        }
    }

    @Test("the store is emptied once more, soon after the login, in one write, by one timer")
    func refresh() throws {
        let second: UInt64 = 1_000_000_000
        for offer in [StreamManagement.Offer.missing, .offered] {
            var session = try makeSession(offer)
            if offer == .offered { _ = try session.hear(Said.enabled) }
            let first = session.start()
            #expect(first.delay == .seconds(5))
            guard case .refresh(let bytes, let next) = session.timerFired(first.id, now: 5 * second) else {
                throw Unexpected("not given once more")
            }
            #expect(text(bytes) == "<presence type=\"unavailable\"/><presence/>")
            #expect(next.delay == .seconds(25))
            guard case .ping = session.timerFired(next.id, now: 30 * second) else { throw Unexpected("no ping") }
        }
        // While nothing is read it would bring more than is wanted; coming back from a long pause does the same.
        var busy = try makeSession(.missing)
        let timer = busy.start()
        _ = busy.readingPaused(true, now: 1 * second)
        guard case .wait(let later) = busy.timerFired(timer.id, now: 5 * second) else { throw Unexpected("given") }
        guard case .withdraw = busy.timerFired(later.id, now: 11 * second) else { throw Unexpected("not withdrawn") }
        #expect(busy.readingPaused(false, now: 20 * second) == Session.Settlement(bytes: Array("<presence/>".utf8)))
        #expect(busy.presence.needsRefresh == false)
    }

    @Test("another resource of our account is told of once; ourselves and others are not")
    func rivals() throws {
        func isRival(_ session: inout Session, _ xml: String) throws -> Bool {
            if case .rival = try session.hear(xml) { true } else { false }
        }
        var session = try makeSession(.missing)
        let account = "1234567890@fcm.googleapis.com"
        for other in [
            "<presence/>", "<presence from='\(account)'/>", "<presence from='\(account)/r'/>",
            "<presence type='unavailable' from='\(account)/x'/>", "<presence from='a@fcm.googleapis.com/x'/>",
            "<presence from='\(account).evil/x'/>", "<message from='\(account)/x'/>",
        ] { #expect(try !isRival(&session, other), "\(other)") }
        #expect(
            try isRival(&session, "<presence from='1234567890@FCM.googleapis.com/x'><priority>5</priority></presence>")
        )
        #expect(try !isRival(&session, "<presence from='\(account)/y'/>"))
    }

    @Test("a long pause has a standard server store messages; reading again brings them")
    func longPauses() throws {
        let second: UInt64 = 1_000_000_000
        for offer in [StreamManagement.Offer.missing, .offered] {
            var session = try makeSession(offer)
            if offer == .offered {
                _ = try session.hear(Said.enabled)
            }
            // A short one: nothing is said.
            let first = session.start()
            #expect(session.readingPaused(true, now: 1 * second) == Session.Settlement())
            #expect(session.readingPaused(false, now: 2 * second) == Session.Settlement())
            guard case .refresh(_, let rest) = session.timerFired(first.id, now: 5 * second) else {
                throw Unexpected("no second presence")
            }
            // The pause of a second does not count.
            #expect(rest.delay == .seconds(26))
            // A long one, told once.
            guard let long = session.readingPaused(true, now: 20 * second).timer else {
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
            #expect(
                session.readingPaused(false, now: 70 * second) == Session.Settlement(bytes: Array("<presence/>".utf8))
            )
            #expect(session.readingPaused(false, now: 71 * second) == Session.Settlement())
            // At the end there is nothing to come back for.
            _ = session.readingPaused(true, now: 80 * second)
            _ = session.close()
            #expect(session.readingPaused(false, now: 100 * second) == Session.Settlement())
        }
        var ccs = try makeSession()
        let timer = ccs.start()
        #expect(ccs.readingPaused(true, now: 1 * second) == Session.Settlement())
        guard case .wait = ccs.timerFired(timer.id, now: 100 * second) else { throw Unexpected("a word to a CCS") }
        #expect(ccs.readingPaused(false, now: 101 * second) == Session.Settlement())
    }
}
