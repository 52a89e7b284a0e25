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
            #expect(presence.isAvailable == isUsed && presence.becomeAvailable(now: 1) == nil)
            let gone = isUsed ? "<presence type=\"unavailable\"/>" : nil
            #expect(presence.becomeUnavailable(now: 1).map(text) == gone)
            #expect(presence.becomeUnavailable(now: 1) == nil && !presence.isAvailable)
            let again = "<presence><priority>127</priority></presence>"
            #expect(presence.becomeAvailable(now: 1).map(text) == (isUsed ? again : nil))
            #expect(presence.becomeAvailable(now: 1) == nil && presence.isAvailable == isUsed)
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
        // While nothing is read it would bring more than is wanted; coming back from a long pause needs it as well.
        var busy = try makeSession(.missing)
        _ = busy.start()
        guard let begun = busy.readingPaused(true, now: 1 * second).timer else { throw Unexpected("no timer") }
        guard case .withdraw(_, let away) = busy.timerFired(begun.id, now: 5 * second) else {
            throw Unexpected("given")
        }
        guard let back = busy.readingPaused(false, now: 20 * second).timer, back.delay == .seconds(1) else {
            throw Unexpected("not coming back")
        }
        #expect(busy.timerFired(away.id, now: 20 * second) == .none)
        guard case .refresh(let bytes, let soon) = busy.timerFired(back.id, now: 21 * second) else {
            throw Unexpected("away")
        }
        #expect(text(bytes) == "<presence/>" && soon.delay == .seconds(5))
        guard case .refresh(let more, _) = busy.timerFired(soon.id, now: 26 * second) else { throw Unexpected("once") }
        #expect(text(more) == "<presence type=\"unavailable\"/><presence/>")
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

    @Test("a long pause has a standard server store messages; reading again for a while brings them")
    func longPauses() throws {
        let second: UInt64 = 1_000_000_000
        for offer in [StreamManagement.Offer.missing, .offered] {
            var session = try makeSession(offer)
            if offer == .offered {
                _ = try session.hear(Said.enabled)
            }
            // A short one: nothing is said.
            let first = session.start()
            guard let short = session.readingPaused(true, now: 1 * second).timer else { throw Unexpected("no timer") }
            #expect(short.delay == .milliseconds(250) && session.timerFired(first.id, now: 1 * second) == .none)
            #expect(session.readingPaused(false, now: 2 * second) == Session.Settlement())
            guard case .wait(let early) = session.timerFired(short.id, now: 2 * second) else {
                throw Unexpected("said")
            }
            guard case .refresh(_, let rest) = session.timerFired(early.id, now: 5 * second) else {
                throw Unexpected("no second presence")
            }
            // The pause of a second does not count.
            #expect(rest.delay == .seconds(26))
            // A long one, told once: nothing is in flight, so 250 messages may come, at the least rate.
            guard let begun = session.readingPaused(true, now: 20 * second).timer else { throw Unexpected("no timer") }
            #expect(session.timerFired(rest.id, now: 20 * second) == .none)
            guard case .wait(let long) = session.timerFired(begun.id, now: 20 * second + second / 4) else {
                throw Unexpected("withdrawn at once")
            }
            #expect(long.delay == .milliseconds(2_250))
            guard case .withdraw(let bytes, let next) = session.timerFired(long.id, now: 22 * second + second / 2)
            else {
                throw Unexpected("still available")
            }
            #expect(String(decoding: bytes, as: UTF8.self) == "<presence type=\"unavailable\"/>")
            guard case .wait = session.timerFired(next.id, now: 60 * second) else {
                throw Unexpected("dead while paused")
            }
            guard let back = session.readingPaused(false, now: 70 * second).timer else { throw Unexpected("no timer") }
            #expect(back.delay == .seconds(1) && session.readingPaused(false, now: 70 * second) == Session.Settlement())
            guard case .refresh(let bytes, let again) = session.timerFired(back.id, now: 71 * second) else {
                throw Unexpected("still away")
            }
            #expect(text(bytes) == "<presence/>" && again.delay == .seconds(5))
            guard case .refresh(_, let ping) = session.timerFired(again.id, now: 76 * second) else {
                throw Unexpected("no second presence")
            }
            // 30 s of reading since the login.
            #expect(ping.delay == .seconds(5))
            guard case .ping = session.timerFired(ping.id, now: 81 * second) else { throw Unexpected("no ping") }
            // At the end there is nothing to come back for.
            _ = session.readingPaused(true, now: 82 * second)
            _ = session.close()
            #expect(session.readingPaused(false, now: 100 * second) == Session.Settlement())
        }
        var ccs = try makeSession()
        let timer = ccs.start()
        #expect(ccs.readingPaused(true, now: 1 * second) == Session.Settlement())
        guard case .wait = ccs.timerFired(timer.id, now: 100 * second) else { throw Unexpected("a word to a CCS") }
        #expect(ccs.readingPaused(false, now: 101 * second) == Session.Settlement())
    }

    // MARK: The server's queue

    private static let second: UInt64 = 1_000_000_000

    /// Presence after messages at this rate for so many seconds, the last of them at the end.
    private static func presence(queue: Int, rate: UInt64, seconds: UInt64 = 5) -> Presence {
        var presence = Presence(.offered, queue: queue)
        for number in 1...rate * seconds { presence.took(now: number * second / rate) }
        return presence
    }

    @Test(
        "presence is withdrawn once the inflow has filled half of the room in the server's queue",
        arguments: [
            // The goal, and what came before it: 380 more fit beside the messages in flight.
            (500, 200, 950), (500, 60, 1_900), (500, 1, 1_900), (500, 100, 1_900),
            // A working database commits faster than this.
            (500, 1_000, 250), (130, 200, 250), (100, 50, 250),
            // A large queue holds as much as ever came in 10 s.
            (5_000, 200, 10_000), (5_000, 1_000, 2_440), (50_000, 1_000, 10_000), (50_000, 10_000, 2_494),
        ]
    )
    func patience(_ queue: Int, _ rate: UInt64, _ milliseconds: Int) {
        let presence = Self.presence(queue: queue, rate: rate)
        let patience = presence.patience(inFlight: 120, pausedAt: 5 * Self.second)
        #expect(patience == .milliseconds(milliseconds))
        // Twice the measured inflow does not fill it, where the queue holds that for the shortest pause.
        let filled = 120 + 2 * Int(rate) * milliseconds / 1_000
        #expect(filled <= queue || milliseconds == 250)
    }

    @Test(
        "the inflow is that of the last second or of this one, whichever is greater; a burst counts as a tenth of one"
    )
    func inflow() {
        var inflow = Inflow()
        #expect(inflow.rate(at: 0) == 0)
        for _ in 0..<120 { inflow.took(now: 7 * Self.second) }
        #expect(inflow.rate(at: 7 * Self.second) == 1_200)
        #expect(inflow.rate(at: 7 * Self.second + Self.second / 2) == 240)
        inflow.took(now: 8 * Self.second)
        #expect(inflow.rate(at: 8 * Self.second) == 120)
        // After a quiet minute.
        inflow.took(now: 68 * Self.second)
        #expect(inflow.rate(at: 68 * Self.second) == 10)
        inflow.took(now: 69 * Self.second)
        #expect(inflow.rate(at: 69 * Self.second) == 10)
        // A clock that stands still, or goes back, is no reason to end.
        inflow.took(now: 1)
        #expect(inflow.rate(at: 1) >= 0)
    }

    @Test(
        "a database that stalls again and again has the server store ever longer, so that its store is seldom emptied"
    )
    func hysteresis() throws {
        var presence = Presence(.offered)
        var now = Self.second
        var absences: [UInt64] = []
        // Each return brings a stall of a second.
        while absences.count < 8 {
            now += Self.second
            #expect(presence.becomeUnavailable(now: now) != nil && presence.returnDue == nil)
            presence.readingResumed(after: .seconds(1), now: now)
            let due = try #require(presence.returnDue)
            absences.append((due - now) / Self.second)
            now = due
            #expect(presence.becomeAvailable(now: now) != nil && presence.returnDue == nil)
        }
        #expect(absences == [1, 2, 4, 8, 16, 30, 30, 30])
        // A minute without a withdrawal is a new beginning.
        now += 60 * Self.second
        #expect(presence.becomeUnavailable(now: now) != nil)
        presence.readingResumed(after: .seconds(1), now: now)
        #expect(presence.returnDue == now + Self.second)
        // A commit's pause does not put the return off, a stall does.
        presence.readingResumed(after: .milliseconds(249), now: now + Self.second / 2)
        #expect(presence.returnDue == now + Self.second)
        presence.readingResumed(after: .milliseconds(250), now: now + Self.second / 2)
        #expect(presence.returnDue == now + 3 * Self.second / 2)
    }

    @Test("while away the stream is pinged as ever, and a pause at the time of the return puts it off")
    func pingsWhileAway() throws {
        let second = Self.second
        var session = try makeSession(.missing)
        let first = session.start()
        guard case .refresh = session.timerFired(first.id, now: 5 * second) else {
            throw Unexpected("no second presence")
        }
        guard let begun = session.readingPaused(true, now: 28 * second).timer else { throw Unexpected("no timer") }
        guard case .withdraw = session.timerFired(begun.id, now: 31 * second) else { throw Unexpected("not away") }
        guard let soon = session.readingPaused(false, now: 31 * second).timer else { throw Unexpected("no timer") }
        #expect(soon.delay == .seconds(1))
        // Paused just then.
        #expect(session.readingPaused(true, now: 32 * second) == Session.Settlement())
        guard case .wait = session.timerFired(soon.id, now: 32 * second) else { throw Unexpected("back while paused") }
        guard let later = session.readingPaused(false, now: 33 * second).timer else { throw Unexpected("no timer") }
        #expect(later.delay == .seconds(1))
        guard case .refresh(_, let ping) = session.timerFired(later.id, now: 34 * second) else {
            throw Unexpected("away")
        }
        // 28, 1 and 1 s of reading.
        guard case .ping(let bytes, let answer) = session.timerFired(ping.id, now: 34 * second) else {
            throw Unexpected("no ping")
        }
        // The second presence is due before the answer.
        #expect(!bytes.isEmpty && answer.delay == .seconds(5))
    }

    @Test(
        "what a long absence has stored is fetched before the next login, where the server offers that",
        // 100 messages a second at least: more than 250 after 3 s.
        arguments: [(28, true, true), (27, true, false), (40, false, false)] as [(UInt64, Bool, Bool)]
    )
    func fetchedStore(_ second: UInt64, _ isFetched: Bool, _ leaves: Bool) throws {
        var settings = StreamSettings(senderID: "1", domain: "example.org", dialect: .xmpp)
        settings.storeIsFetched = isFetched
        let stream = BoundStream(address: try #require(JID("1@example.org/r")), greeting: [], management: .missing)
        var session = Session(settings, idPrefix: "r", stream: stream, now: 0)
        let first = session.start()
        guard case .refresh = session.timerFired(first.id, now: 5 * Self.second),
            let begun = session.readingPaused(true, now: 20 * Self.second).timer,
            case .withdraw = session.timerFired(begun.id, now: 25 * Self.second),
            let back = session.readingPaused(false, now: (second - 1) * Self.second).timer
        else { throw Unexpected("not away") }
        switch session.timerFired(back.id, now: second * Self.second) {
        case .leave(.close(let bytes, _)): #expect(leaves && text(bytes) == "</stream:stream>")
        case .refresh(let bytes, _): #expect(!leaves && text(bytes) == "<presence/>")
        case let action: throw Unexpected("\(action)")
        }
        #expect(session.canSend == !leaves)
    }

    @Test("the window of a standard server's session is at most half of the server's queue")
    func window() {
        var settings = StreamSettings(senderID: "1", domain: "example.org", dialect: .xmpp)
        for (queue, window, used) in [(500, 100, 100), (500, 1_000, 250), (50_000, 1_000, 1_000), (1, 100, 1)] {
            (settings.serverQueue, settings.window) = (queue, window)
            #expect(settings.usedWindow == used)
        }
        settings.dialect = .ccs
        #expect(settings.usedWindow == 100)
    }
}
