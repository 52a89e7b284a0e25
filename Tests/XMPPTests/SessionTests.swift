import Testing
import Vocabulary
import XMLWire

@testable import XMPP

/// A bound stream from its first stanza to its end.
@Suite struct SessionTests {
    private static let second: UInt64 = 1_000_000_000
    private static let nackDrain =
        "<message><gcm xmlns='google:mobile:data'>{\"message_type\":\"nack\",\"error\":\"CONNECTION_DRAINING\"}</gcm></message>"
    private static let goodbye = Array("</stream:stream>".utf8)

    private static func word(_ action: Session.StanzaAction) -> String {
        switch action {
        case .deliver, .deliverAll: "deliver"
        case .note(let kind): "note \(XMPPTests.word(kind))"
        case .drain(_, let timer): timer == nil ? "drain again" : "drain"
        case .reply(let bytes), .answer(let bytes): text(bytes)
        case .managed: "managed"
        case .rival: "rival"
        case .end, .none: "-"
        }
    }

    @Test("our own end waits for what is in flight, then for the peer's closing tag, but not for long")
    func ourEndInOrder() throws {
        var session = try makeSession()
        let keepalive = session.start()
        let message = try session.deliver()
        #expect(session.close() == .settle(nil))
        #expect(session.canSend == true)
        #expect(session.timerFired(keepalive.id, now: 100 * SessionTests.second) == .none)
        guard case .close(let bytes, let timer) = session.committed([message]).step else {
            throw Unexpected("no closing tag")
        }
        #expect(bytes == SessionTests.goodbye)
        #expect(session.canSend == false)
        #expect(session.peerClosed() == .end([], .closedByUs))
        #expect(session.timerFired(timer.id, now: 3 * SessionTests.second) == .none)
        // And a peer that never answers.
        var other = try makeSession()
        guard case .close(_, let limit) = other.close() else { throw Unexpected("no closing tag") }
        #expect(other.timerFired(limit.id, now: 2 * SessionTests.second) == .end([], .closedByUs))
    }

    @Test("a peer that closes first still gets its acks for a while")
    func peerClosesFirst() throws {
        var session = try makeSession()
        let message = try session.deliver()
        guard case .settle(let timer?) = session.peerClosed() else { throw Unexpected("no time") }
        #expect(session.canSend == true)
        #expect(timer.delay == .seconds(2))
        #expect(session.timerFired(timer.id, now: 0) == .end(SessionTests.goodbye, .closedByPeer))
        #expect(session.canSend == false)
        #expect(session.committed([message]).step == .none)
    }

    @Test("draining is announced once, and the session goes on")
    func drainingIsAnnouncedOnceAndTheSessionGoesOn() throws {
        var session = try makeSession()
        #expect(
            SessionTests.word(try session.hear(SessionTests.nackDrain)) == "drain"
        )
        #expect(
            SessionTests.word(try session.hear(Said.drain))
                == "drain again"
        )
        #expect(session.isDraining == true)
        #expect(session.canSend == true)
        #expect(
            SessionTests.word(try session.hear(Said.good)) == "deliver"
        )
    }

    @Test("on a standard server nobody can have us open connections by what a CCS says when it drains one")
    func noDrainingOfAStandardServer() throws {
        var session = try makeSession(.offered)
        guard case .note(.control(.connectionDraining)) = try session.hear(Said.drain) else {
            throw Unexpected("drains")
        }
        guard case .note(.nack(.connectionDraining)) = try session.hear(SessionTests.nackDrain) else {
            throw Unexpected("drains")
        }
        #expect(session.isDraining == false)
    }

    @Test(
        "queries are answered, other stanzas are noted by their kind",
        arguments: [
            (
                "<iq type='get' id='p&lt;1' from='s'><ping xmlns='urn:xmpp:ping'/></iq>",
                "<iq type=\"result\" id=\"p&lt;1\" to=\"s\"/>"
            ),
            ("<iq type='get' id='1'><ping xmlns='urn:xmpp:ping'/></iq>", "<iq type=\"result\" id=\"1\"/>"),
            (
                "<iq type='get' id='1'><query xmlns='x'/></iq>",
                "<iq type=\"error\" id=\"1\"><error type=\"cancel\"><service-unavailable xmlns=\"urn:ietf:params:xml:ns:xmpp-stanzas\"/></error></iq>"
            ),
            (
                "<iq type='set' id='1'><ping xmlns='urn:xmpp:ping'/></iq>",
                "<iq type=\"error\" id=\"1\"><error type=\"cancel\"><service-unavailable xmlns=\"urn:ietf:params:xml:ns:xmpp-stanzas\"/></error></iq>"
            ),
            ("<iq type='result' id='1'/>", "note other"), ("<iq type='error' id='1'/>", "note other"),
            ("<iq type='get'><ping xmlns='urn:xmpp:ping'/></iq>", "note other"),
            (
                "<iq id='1'/>",
                "<iq type=\"error\" id=\"1\"><error type=\"modify\"><bad-request xmlns=\"urn:ietf:params:xml:ns:xmpp-stanzas\"/></error></iq>"
            ),
            ("<presence/>", "note other"), ("<x xmlns='y'/>", "note other"), ("<message/>", "note other"),
            ("<message type='error'/>", "note error"),
            ("<message from='evil@x'><gcm xmlns='google:mobile:data'>{}</gcm></message>", "note untrusted"),
            ("<message><gcm xmlns='google:mobile:data'>{\"message_type\":\"ack\"}</gcm></message>", "note ack"),
        ]
    )
    func otherStanzas(_ xml: String, _ expected: String) throws {
        var session = try makeSession()
        #expect(SessionTests.word(try session.hear(xml)) == expected)
    }

    @Test("a silent peer is pinged, then the connection counts as dead")
    func aSilentPeerIsAskedAndThenGivenUp() throws {
        var session = try makeSession()
        let first = session.start()
        #expect(first.delay == .seconds(30))
        guard case .ping(let bytes, let second) = session.timerFired(first.id, now: 30 * SessionTests.second) else {
            throw Unexpected("no ping")
        }
        let ping = try stanza(String(decoding: bytes, as: UTF8.self))
        #expect(ping.child("ping", in: XMLNamespace.ping) != nil && second.delay == .seconds(15))
        #expect(session.timerFired(first.id, now: 45 * SessionTests.second) == .none)
        #expect(session.timerFired(second.id, now: 45 * SessionTests.second) == .end([], .silent))
        #expect(session.canSend == false)
        #expect(session.timerFired(second.id, now: 60 * SessionTests.second) == .none)
    }

    private static func pong(
        _ ping: [UInt8],
        from: String? = "fcm.googleapis.com",
        type: String = "result"
    ) throws -> Stanza {
        let ping = try stanza(String(decoding: ping, as: UTF8.self))
        let id = try #require(ping.attribute("id", of: 0).map { ping.string($0) })
        let address = from.map { " from='\($0)'" } ?? ""
        return try stanza("<iq type='\(type)' id='\(id)'\(address)/>")
    }

    @Test(
        "only the answer to the ping itself shows that the peer hears us",
        arguments: [
            ("result", "fcm.googleapis.com", true), ("error", "fcm.googleapis.com", true), ("result", nil, true),
            ("result", "1234567890@fcm.googleapis.com", true), ("result", "1234567890@fcm.googleapis.com/r", true),
            ("result", "devices@gcm.googleapis.com", false), ("result", "mallory@fcm.googleapis.com/x", false),
            ("result", "@", false), ("get", "fcm.googleapis.com", false), ("set", "fcm.googleapis.com", false),
        ] as [(String, String?, Bool)]
    )
    func answers(_ type: String, _ from: String?, _ counts: Bool) throws {
        var session = try makeSession()
        let first = session.start()
        guard case .ping(let bytes, let answer) = session.timerFired(first.id, now: 30 * SessionTests.second) else {
            throw Unexpected("no ping")
        }
        let pong = try SessionTests.pong(bytes, from: from, type: type)
        _ = session.stanza(pong, receivedAt: 0, parsedAt: 31 * SessionTests.second)
        let next = session.timerFired(answer.id, now: 45 * SessionTests.second)
        guard counts else { return #expect(next == .end([], .silent)) }
        guard case .wait(let rest) = next else { throw Unexpected("dead though it has answered") }
        // Asked again an interval after the answer.
        #expect(rest.delay == .seconds(16))
        guard case .ping(let second, let last) = session.timerFired(rest.id, now: 61 * SessionTests.second) else {
            throw Unexpected("no second ping")
        }
        #expect(second != bytes)
        // An old answer is not the answer to this one.
        _ = session.stanza(pong, receivedAt: 0, parsedAt: 62 * SessionTests.second)
        #expect(session.timerFired(last.id, now: 76 * SessionTests.second) == .end([], .silent))
    }

    /// A peer whose every message comes through while nothing of ours reaches it.
    @Test("a busy stream is pinged as often as an idle one")
    func aBusyStreamIsAskedAsOftenAsAnIdleOne() throws {
        var session = try makeSession()
        var timer = session.start()
        var pings = 0
        for tick in UInt64(1)...45 {
            let now = tick * SessionTests.second
            _ = session.stanza(try stanza(Said.good), receivedAt: 0, parsedAt: now)
            guard tick == 30 || tick == 45 else { continue }
            switch session.timerFired(timer.id, now: now) {
            case .ping(_, let next):
                pings += 1
                timer = next
            case .end(_, .silent): #expect(tick == 45 && pings == 1)
            case let action: Issue.record("\(action) after \(tick) s")
            }
        }
        #expect(session.canSend == false)
    }

    @Test("a pause of our own reading is not the peer's silence")
    func pausedReadingIsNotThePeersSilence() throws {
        var session = try makeSession()
        let first = session.start()
        guard case .ping(_, let answer) = session.timerFired(first.id, now: 30 * SessionTests.second) else {
            throw Unexpected("no ping")
        }
        #expect(session.readingPaused(true, now: 31 * SessionTests.second) == Session.Settlement())
        guard case .wait(let paused) = session.timerFired(answer.id, now: 45 * SessionTests.second) else {
            throw Unexpected("dead while paused")
        }
        guard case .wait = session.timerFired(paused.id, now: 500 * SessionTests.second) else {
            throw Unexpected("dead while paused")
        }
        // The clock goes on from where it stood: a second of the answer's 15 had passed.
        guard let rest = session.readingPaused(false, now: 501 * SessionTests.second).timer else {
            throw Unexpected("no timer after the pause")
        }
        #expect(rest.delay == .seconds(14))
        #expect(session.timerFired(rest.id, now: 515 * SessionTests.second) == .end([], .silent))
    }

    @Test(
        "a stream that pauses and resumes all the time is asked and judged all the same",
        arguments: [
            StreamManagement.Offer.unused, .missing,
        ]
    )
    func flapping(_ offer: StreamManagement.Offer) throws {
        let second = SessionTests.second
        var session = try makeSession(offer)
        var due: [UInt64: UInt64] = [:]
        func set(_ timer: SessionTimer, _ now: UInt64) { due = [timer.id: now + timer.delay.nanoseconds] }
        set(session.start(), 0)
        var pings = 0
        // Half of the time paused: 5 ms each.
        for tick in UInt64(0)..<40_000 {
            let now = tick * 5_000_000
            if let timer = session.readingPaused(tick % 2 == 1, now: now).timer { set(timer, now) }
            guard let (id, at) = due.first, at <= now else { continue }
            switch session.timerFired(id, now: now) {
            case .wait(let timer), .refresh(_, let timer): set(timer, now)
            case .ping(_, let timer):
                pings += 1
                // 30 s of reading.
                #expect(now >= 59 * second && now <= 71 * second)
                set(timer, now)
            case .end(_, .silent):
                #expect(pings == 1 && now >= 89 * second && now <= 112 * second)
                return
            case let action: throw Unexpected("\(action)")
            }
        }
        Issue.record("never found dead")
    }

    @Test("a stream error's condition is read, its text is not")
    func streamErrorsAreReadAndTheirTextIsNot() throws {
        for condition in StreamErrorCondition.allCases {
            let xml =
                "<stream:error><\(condition.rawValue) xmlns='urn:ietf:params:xml:ns:xmpp-streams'>other.host</\(condition.rawValue)><text xmlns='urn:ietf:params:xml:ns:xmpp-streams'>a&#10;b</text></stream:error>"
            let error = try #require(StreamError(try stanza(xml)))
            #expect(error.condition == condition)
            #expect(error.otherHost == (condition == .seeOtherHost ? "other.host" : nil))
            #expect(error.summary == condition.rawValue + (condition == .seeOtherHost ? " (other.host)" : ""))
        }
        let odd = try #require(
            StreamError(
                try stanza(
                    "<stream:error><xml-not-well-formed xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error>"
                )
            )
        )
        #expect(odd.condition == .notWellFormed)
        #expect(try #require(StreamError(try stanza("<stream:error/>"))).condition == .undefinedCondition)
    }
}
