import Testing
import Vocabulary

@testable import XMPP

@Suite("Resumption: going on with a stream whose connection was lost")
struct ResumptionTests {
    private static let second: UInt64 = 1_000_000_000
    private static let granted =
        "<enabled xmlns='urn:xmpp:sm:3' id='a&amp;\"1' resume='true' max='60' location='[2001:db8::1]:5222'/>"

    private static func opened(_ enabled: String = granted) throws -> Session {
        var session = try makeSession(.offered)
        _ = try session.hear(enabled)
        return session
    }

    private func opened(_ enabled: String = granted) throws -> Session { try ResumptionTests.opened(enabled) }

    private static func grant(_ enabled: String) throws -> ResumptionGrant? {
        let session = try opened(enabled)
        return session.management.grant
    }

    /// A session that was lost after `sent` acks and this many stanzas.
    private static func suspended(stanzas: Int = 3, acks: Int = 4) throws -> SuspendedSession {
        var session = try opened()
        for _ in 0..<stanzas { _ = try session.hear("<presence/>") }
        _ = session.wrote(acks)
        session.transportClosed()
        let suspended = session.suspended
        return try #require(suspended)
    }

    // MARK: A server that does not hear

    private enum Answer: CaseIterable { case none, pong, count }

    @Test(
        "a resumed session is asked at once; if nothing is answered, it is not resumed again",
        arguments: Answer.allCases
    )
    private func deaf(_ answer: Answer) throws {
        var session = try ResumptionTests.resumed()
        #expect(session.isHeard == false)
        var timer = session.start()
        #expect(timer.delay == .zero)
        guard case .ping(let ping, let next) = session.timerFired(timer.id, now: ResumptionTests.second) else {
            throw Unexpected("no ping")
        }
        timer = next
        switch answer {
        case .none: break
        case .pong:
            // <iq type="get" to="…" id="…">
            let id = text(ping).split(separator: "\"")[5]
            _ = try session.hear("<iq type='result' id='\(id)'/>")
        case .count: _ = try session.hear("<a xmlns='urn:xmpp:sm:3' h='0'/>")
        }
        #expect(session.isHeard == (answer != .none))
        var now = ResumptionTests.second
        while true {
            now += UInt64(timer.delay / .nanoseconds(1))
            let action = session.timerFired(timer.id, now: now)
            if case .end(_, .silent) = action { break }
            switch action {
            case .wait(let next), .ping(_, let next), .refresh(_, let next): timer = next
            default: throw Unexpected("\(action)")
            }
        }
        let suspended = session.suspended
        #expect((suspended != nil) == (answer != .none))
        let ending = session.ending(after: .silent, now: ResumptionTests.second)
        #expect(ending == (answer == .none ? .unheard : .session(bound: .seconds(1), error: nil)))
    }

    /// A session on a connection that was just resumed, at time zero.
    private static func resumed() throws -> Session {
        var management = try suspended().management
        _ = management.resumption()
        let address = try #require(JID("1234567890@fcm.googleapis.com/r"))
        let stream = BoundStream(address: address, greeting: [], management: .offered, resumed: management)
        return makeSession(on: stream, dialect: .xmpp)
    }

    // MARK: What the server grants

    @Test("what an <enabled/> grants")
    func grants() throws {
        let grant = try #require(try ResumptionTests.grant(ResumptionTests.granted))
        #expect(text(grant.id) == "a&\"1" && grant.longest == .seconds(60) && grant.location == "[2001:db8::1]:5222")
        let word = try #require(
            try ResumptionTests.grant("<enabled xmlns='urn:xmpp:sm:3' id='x' resume='1' max='-1'/>")
        )
        #expect(word.longest == nil && word.location == nil)
        for none in [
            "<enabled xmlns='urn:xmpp:sm:3'/>", "<enabled xmlns='urn:xmpp:sm:3' id='x'/>",
            "<enabled xmlns='urn:xmpp:sm:3' id='x' resume='false'/>", "<enabled xmlns='urn:xmpp:sm:3' resume='true'/>",
            "<enabled xmlns='urn:xmpp:sm:3' id='' resume='true'/>",
            "<enabled xmlns='urn:xmpp:sm:3' id='\(String(repeating: "x", count: 4_001))' resume='true'/>",
        ] { #expect(try ResumptionTests.grant(none) == nil, "\(none)") }
    }

    @Test("a second <enabled/> changes nothing")
    func enabledTwice() throws {
        var session = try opened()
        _ = try session.hear("<presence/>")
        guard case .note(.other) = try session.hear("<enabled xmlns='urn:xmpp:sm:3' id='evil' resume='true'/>") else {
            throw Unexpected("taken")
        }
        #expect(text(session.management.grant?.id ?? []) == "a&\"1" && session.management.handled == 1)
    }

    // MARK: When a session goes on

    @Test("a lost connection suspends a session; every other end is the end")
    func endings() throws {
        var lost = try opened()
        lost.transportClosed()
        #expect(lost.isSuspended == true && lost.suspended != nil && lost.canSend == false)
        var silent = try opened()
        var timer = silent.start()
        for now in [5, 30, 45] as [UInt64] {
            switch silent.timerFired(timer.id, now: now * ResumptionTests.second) {
            case .refresh(_, let next), .ping(_, let next): timer = next
            case .end(_, .silent): break
            case let action: throw Unexpected("\(action)")
            }
        }
        #expect((silent.suspended != nil) == true)
        var plain = try opened("<enabled xmlns='urn:xmpp:sm:3'/>")
        plain.transportClosed()
        var refused = try opened()
        _ = try refused.hear(Said.shutdown)
        refused.transportClosed()
        var ours = try opened()
        _ = ours.close()
        ours.transportClosed()
        var theirs = try opened()
        _ = theirs.peerClosed()
        theirs.transportClosed()
        var broken = try opened()
        _ = broken.farewell(.policyViolation)
        broken.transportClosed()
        for ended in [plain.isSuspended, refused.isSuspended, ours.isSuspended, theirs.isSuspended, broken.isSuspended]
        {
            #expect(!ended)
        }
    }

    @Test("it goes on only when all that came has committed; h then covers it")
    func onlyWhenSettled() throws {
        var session = try opened()
        _ = try session.hear("<presence/>")
        let messages = [try session.deliver(), try session.deliver()]
        session.transportClosed()
        #expect(session.isSuspended && session.suspended == nil)
        _ = session.committed([messages[1]])
        #expect(session.suspended == nil)
        #expect(session.committed([messages[0]]).bytes.isEmpty)
        let lost = session.suspended
        var suspended = try #require(lost)
        #expect(
            text(suspended.management.resumption())
                == "<resume xmlns=\"urn:xmpp:sm:3\" previd=\"a&amp;&quot;1\" h=\"3\"/>"
        )
    }

    @Test("it is held as long as the server says")
    func held() throws {
        let management = try ResumptionTests.suspended().management
        #expect(management.resumable(until: 5 * ResumptionTests.second, asked: .zero) == 65 * ResumptionTests.second)
        #expect(management.resumable(until: .max - 1, asked: .zero) == .max)
        var open = try opened("<enabled xmlns='urn:xmpp:sm:3' id='x' resume='true'/>")
        open.transportClosed()
        #expect(open.suspended?.management.resumable(until: 5, asked: .nanoseconds(60)) == 65)
    }

    // MARK: The server's answer

    @Test(
        "the server's answer is believed only about this session and a count that can be",
        arguments: [
            ("<resumed xmlns='urn:xmpp:sm:3' previd='a&amp;\"1' h='5'/>", .resumed(confirmed: 5)),
            ("<resumed xmlns='urn:xmpp:sm:3' previd='a&amp;\"1' h='0'/>", .resumed(confirmed: 0)),
            ("<resumed xmlns='urn:xmpp:sm:3' previd='a&amp;\"1' h='6'/>", .invalid),
            ("<resumed xmlns='urn:xmpp:sm:3' previd='a&amp;\"1' h='-1'/>", .invalid),
            ("<resumed xmlns='urn:xmpp:sm:3' previd='a&amp;\"1'/>", .invalid),
            ("<resumed xmlns='urn:xmpp:sm:3' previd='other' h='1'/>", .invalid),
            ("<resumed xmlns='urn:xmpp:sm:3' h='1'/>", .invalid),
            (
                "<failed xmlns='urn:xmpp:sm:3' h='3'><item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>",
                .refused(.itemNotFound)
            ),
            ("<failed xmlns='urn:xmpp:sm:3'/>", .refused(.undefinedCondition)),
            ("<a xmlns='urn:xmpp:sm:3' h='1'/>", .none), ("<presence/>", .none), ("<resumed xmlns='x'/>", .none),
        ] as [(String, StreamManagement.ResumptionAnswer)]
    )
    func answers(_ xml: String, _ expected: StreamManagement.ResumptionAnswer) throws {
        // Presence and four acks: five stanzas of ours.
        var management = try ResumptionTests.suspended().management
        _ = management.resumption()
        #expect(management.answered(try stanza(xml)) == expected, "\(xml)")
    }

    private static func negotiation(storeIsFetched: Bool = false) throws -> Negotiation {
        var setting = NegotiationTests.Setting(.direct, .xmpp)
        setting.settings.storeIsFetched = storeIsFetched
        setting.suspended = try suspended()
        return try NegotiationTests.reach(.featuresAuthenticated, setting)
    }

    private static let features =
        "<stream:features><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/><sm xmlns='urn:xmpp:sm:3'/></stream:features>"

    @Test("instead of the binding the session is asked for; it goes on with its address and its counts")
    func negotiated() throws {
        var negotiation = try ResumptionTests.negotiation()
        guard case .send(let request) = negotiation.stanza(try stanza(ResumptionTests.features), trailingBytes: 0)
        else {
            throw Unexpected("nothing asked")
        }
        #expect(text(request).hasPrefix("<resume ") && text(request).contains("h=\"3\""))
        let answer = try stanza("<resumed xmlns='urn:xmpp:sm:3' previd='a&amp;\"1' h='2'/>")
        guard case .bound(let stream) = negotiation.stanza(answer, trailingBytes: 0) else {
            throw Unexpected("not bound")
        }
        #expect(stream.greeting.isEmpty && stream.address == JID("1234567890@fcm.googleapis.com/r"))
        var session = makeSession(on: stream, dialect: .xmpp)
        // Nothing is counted anew.
        #expect(session.management.handled == 3 && session.confirmed == 2)
        // The last presence may have been `unavailable`, or may not have arrived.
        let first = session.start()
        guard first.delay == .zero, case .ping(_, let timer) = session.timerFired(first.id, now: 0),
            timer.delay == Presence.refreshDelay,
            case .refresh(let bytes, _) = session.timerFired(timer.id, now: 5 * ResumptionTests.second)
        else { throw Unexpected("no presence") }
        #expect(text(bytes) == "<presence type=\"unavailable\"/><presence/>")
        let message = try session.deliver()
        #expect(message.stanzaNumber == 4)
        // What the server has not is sent again; its count goes on from what it has.
        #expect(session.wrote(3) == 8)
        guard case .note = try session.hear("<a xmlns='urn:xmpp:sm:3' h='8'/>") else { throw Unexpected("ended") }
        guard case .end(_, .miscounted) = try session.hear("<a xmlns='urn:xmpp:sm:3' h='9'/>") else {
            throw Unexpected("went on")
        }
    }

    @Test("a refusal is followed by a binding on the same stream; a wrong answer ends it")
    func refused() throws {
        var negotiation = try ResumptionTests.negotiation()
        _ = negotiation.stanza(try stanza(ResumptionTests.features), trailingBytes: 0)
        let refusal = try stanza("<failed xmlns='urn:xmpp:sm:3'/>")
        guard case .send(let bind) = negotiation.stanza(refusal, trailingBytes: 0) else {
            throw Unexpected("no binding")
        }
        #expect(text(bind).contains("<bind "))
        guard case .bound(let stream) = negotiation.stanza(try stanza(NegotiationTests.bound), trailingBytes: 0) else {
            throw Unexpected("not bound")
        }
        #expect(stream.resumed == nil && text(stream.greeting).hasPrefix("<enable "))

        var wrong = try ResumptionTests.negotiation()
        _ = wrong.stanza(try stanza(ResumptionTests.features), trailingBytes: 0)
        let other = try stanza("<resumed xmlns='urn:xmpp:sm:3' previd='other' h='0'/>")
        guard case .fail(let error) = wrong.stanza(other, trailingBytes: 0) else { throw Unexpected("believed") }
        #expect(error.code == .badStream)

        var without = try ResumptionTests.negotiation()
        let features = "<stream:features><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></stream:features>"
        guard case .send(let request) = without.stanza(try stanza(features), trailingBytes: 0) else {
            throw Unexpected("nothing asked")
        }
        #expect(text(request).contains("<bind "))
    }

    @Test("where the offline store is fetched before each login, a refusal ends the stream: the next one fetches first")
    func refusedWithStore() throws {
        var negotiation = try ResumptionTests.negotiation(storeIsFetched: true)
        _ = negotiation.stanza(try stanza(ResumptionTests.features), trailingBytes: 0)
        let refusal = try stanza("<failed xmlns='urn:xmpp:sm:3'/>")
        guard case .fail(let error) = negotiation.stanza(refusal, trailingBytes: 0) else { throw Unexpected("went on") }
        #expect(error.code == .sessionGone && !error.code.isAuthentication)
        // The same where nothing can be resumed any more.
        var without = try ResumptionTests.negotiation(storeIsFetched: true)
        let features = "<stream:features><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></stream:features>"
        guard case .fail(let other) = without.stanza(try stanza(features), trailingBytes: 0) else {
            throw Unexpected("went on")
        }
        #expect(other.code == .sessionGone)
        // Without a session to resume it is a login like any other.
        var setting = NegotiationTests.Setting(.direct, .xmpp)
        setting.settings.storeIsFetched = true
        var plain = try NegotiationTests.reach(.featuresAuthenticated, setting)
        guard case .send = plain.stanza(try stanza(features), trailingBytes: 0) else { throw Unexpected("not bound") }
    }

    @Test(
        "the time that the server lets a stream be idle shortens the keepalive, and never to nothing",
        arguments: [
            ("<idle-seconds>20</idle-seconds>", 10), ("<idle-seconds>1</idle-seconds>", 1),
            ("<idle-seconds>900</idle-seconds>", 30), ("<idle-seconds>0</idle-seconds>", 30),
            ("<idle-seconds>-5</idle-seconds>", 30), ("<idle-seconds>99999999999999999999</idle-seconds>", 30),
            ("<max-bytes>10000</max-bytes><idle-seconds>4</idle-seconds>", 2), ("", 30),
        ]
    )
    func idle(_ limits: String, _ interval: Int64) throws {
        var negotiation = try NegotiationTests.reach(.featuresAuthenticated)
        let features =
            "<stream:features><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/>"
            + "<limits xmlns='urn:xmpp:stream-limits:0'>\(limits)</limits></stream:features>"
        _ = negotiation.stanza(try stanza(features), trailingBytes: 0)
        guard case .bound(let stream) = negotiation.stanza(try stanza(NegotiationTests.bound), trailingBytes: 0) else {
            throw Unexpected("not bound")
        }
        var session = makeSession(on: stream)
        #expect(session.start().delay == .seconds(interval))
    }

    @Test("resumption is asked for with a time, and only where it is configured")
    func request() {
        #expect(text(StreamManagement.request(resume: .zero)) == "<enable xmlns=\"urn:xmpp:sm:3\" resume=\"false\"/>")
        #expect(
            text(StreamManagement.request(resume: .seconds(60)))
                == "<enable xmlns=\"urn:xmpp:sm:3\" resume=\"true\" max=\"60\"/>"
        )
        #expect(text(StreamManagement.request(resume: .milliseconds(5))).contains("max=\"1\""))
    }
}
