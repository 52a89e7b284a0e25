import Testing
import UpstreamKit
import XMLWire

@testable import XMPP

/// A bound stream from its first stanza to its end.
@Suite struct SessionTests {
    private static let second: UInt64 = 1_000_000_000
    private static let good =
        "<message><gcm xmlns='google:mobile:data'>{\"message_id\":\"1\",\"from\":\"t\",\"category\":\"c\"}</gcm></message>"
    private static let drain =
        "<message><gcm xmlns='google:mobile:data'>{\"message_type\":\"control\",\"control_type\":\"CONNECTION_DRAINING\"}</gcm></message>"
    private static let nackDrain =
        "<message><gcm xmlns='google:mobile:data'>{\"message_type\":\"nack\",\"error\":\"CONNECTION_DRAINING\"}</gcm></message>"
    private static let shutdown =
        "<stream:error><system-shutdown xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error>"

    private static func session() throws -> Session {
        Session(
            configuration: SessionConfiguration(domain: "fcm.googleapis.com", idPrefix: "r"),
            codec: try makeCodec(),
            stream: BoundStream(address: try #require(JID("1234567890@fcm.googleapis.com/r")), greeting: []),
            now: 0
        )
    }

    enum Point: CaseIterable { case open, draining, finishingOurs, finishingTheirs, closing, ended }

    private static func reach(_ point: Point) throws -> Session {
        var session = try session()
        switch point {
        case .open: break
        case .draining: _ = session.stanza(try stanza(drain), receivedAt: 0, parsedAt: 0)
        case .finishingOurs: _ = session.close()
        case .finishingTheirs: _ = session.peerClosed()
        case .closing:
            _ = session.close()
            _ = session.settled()
        case .ended: session.transportClosed()
        }
        return session
    }

    private static func word(_ action: Session.StanzaAction) -> String {
        switch action {
        case .deliver: "deliver"
        case .note(let kind): "note \(XMPPTests.word(kind))"
        case .drain(_, let isFirst): isFirst ? "drain" : "drain again"
        case .reply(let bytes), .answer(let bytes), .managed(_, let bytes): String(decoding: bytes, as: UTF8.self)
        case .end(let error, let bytes): "end \(error.condition.rawValue) \(bytes.count)"
        case .none: "-"
        }
    }

    @Test func everyStateWithEveryEvent() throws {
        for point in Point.allCases {
            let isOpen = point == .open || point == .draining
            var session = try SessionTests.reach(point)
            #expect(
                SessionTests.word(session.stanza(try stanza(SessionTests.good), receivedAt: 0, parsedAt: 0))
                    == (isOpen ? "deliver" : "-"),
                "\(point)"
            )
            session = try SessionTests.reach(point)
            let drained = SessionTests.word(session.stanza(try stanza(SessionTests.drain), receivedAt: 0, parsedAt: 0))
            #expect(drained == (point == .open ? "drain" : point == .draining ? "drain again" : "-"), "\(point)")
            session = try SessionTests.reach(point)
            let ended = SessionTests.word(session.stanza(try stanza(SessionTests.shutdown), receivedAt: 0, parsedAt: 0))
            let farewell = point == .closing ? 0 : 16
            #expect(ended == (point == .ended ? "-" : "end system-shutdown \(farewell)"), "\(point)")
            #expect(session.canSend == false)

            session = try SessionTests.reach(point)
            #expect(session.close() == (isOpen ? .stopReading : .none), "\(point)")
            session = try SessionTests.reach(point)
            switch (point, session.settled()) {
            case (.finishingOurs, .send(let bytes, let timer)):
                #expect(bytes == Array("</stream:stream>".utf8) && timer.delay == .seconds(2))
            case (.finishingTheirs, .close(let bytes)): #expect(bytes == Array("</stream:stream>".utf8))
            case (.open, .none), (.draining, .none), (.closing, .none), (.ended, .none): break
            case (_, let action): Issue.record("\(action) in \(point)")
            }
            session = try SessionTests.reach(point)
            switch (point, session.peerClosed()) {
            case (.open, .finish), (.draining, .finish), (.finishingOurs, .finish), (.closing, .close): break
            case (.finishingTheirs, .none), (.ended, .none): break
            case (_, let action): Issue.record("\(action) in \(point)")
            }
            session = try SessionTests.reach(point)
            let violation = String(decoding: session.violation(.policyViolation), as: UTF8.self)
            #expect(violation.isEmpty == (point == .closing || point == .ended), "\(point)")
            #expect(violation.isEmpty || violation.hasSuffix("</stream:error></stream:stream>"))
            #expect(session.canSend == false)
            #expect(session.close() == .none)
            session = try SessionTests.reach(point)
            #expect(session.timerFired(999, now: 0) == .none)
            #expect(session.canSend == (point != .closing && point != .ended))
        }
    }

    @Test func ourEndInOrder() throws {
        var session = try SessionTests.session()
        let keepalive = session.start()
        #expect(session.close() == .stopReading)
        #expect(session.canSend == true)
        #expect(session.timerFired(keepalive.id, now: 100 * SessionTests.second) == .none)
        guard case .send(let bytes, let timer) = session.settled() else { throw Unexpected("no closing tag") }
        #expect(bytes == Array("</stream:stream>".utf8))
        #expect(session.canSend == false)
        #expect(session.peerClosed() == .close)
        #expect(session.timerFired(timer.id, now: 3 * SessionTests.second) == .none)
        // And a peer that never answers.
        var other = try SessionTests.session()
        _ = other.close()
        guard case .send(_, let patience) = other.settled() else { throw Unexpected("no closing tag") }
        #expect(other.timerFired(patience.id, now: 2 * SessionTests.second) == .close([]))
    }

    @Test func aPeerThatClosesFirstStillGetsItsAcksForAWhile() throws {
        var session = try SessionTests.session()
        guard case .finish(let timer) = session.peerClosed() else { throw Unexpected("no time") }
        #expect(session.canSend == true)
        #expect(timer.delay == .seconds(2))
        #expect(session.timerFired(timer.id, now: 0) == .close(Array("</stream:stream>".utf8)))
        #expect(session.canSend == false)
        #expect(session.settled() == .none)
    }

    @Test func drainingIsAnnouncedOnceAndTheSessionGoesOn() throws {
        var session = try SessionTests.session()
        #expect(
            SessionTests.word(session.stanza(try stanza(SessionTests.nackDrain), receivedAt: 0, parsedAt: 0)) == "drain"
        )
        #expect(
            SessionTests.word(session.stanza(try stanza(SessionTests.drain), receivedAt: 0, parsedAt: 0))
                == "drain again"
        )
        #expect(session.isDraining == true)
        #expect(session.canSend == true)
        #expect(
            SessionTests.word(session.stanza(try stanza(SessionTests.good), receivedAt: 0, parsedAt: 0)) == "deliver"
        )
    }

    @Test(arguments: [
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
        ("<iq type='get'><ping xmlns='urn:xmpp:ping'/></iq>", "note other"), ("<iq id='1'/>", "note other"),
        ("<presence/>", "note other"), ("<x xmlns='y'/>", "note other"), ("<message/>", "note other"),
        ("<message type='error'/>", "note error"),
        ("<message from='evil@x'><gcm xmlns='google:mobile:data'>{}</gcm></message>", "note untrusted"),
        ("<message><gcm xmlns='google:mobile:data'>{\"message_type\":\"ack\"}</gcm></message>", "note ack"),
    ])
    func otherStanzas(_ xml: String, _ expected: String) throws {
        var session = try SessionTests.session()
        #expect(SessionTests.word(session.stanza(try stanza(xml), receivedAt: 0, parsedAt: 0)) == expected)
    }

    @Test func aSilentPeerIsAskedAndThenGivenUp() throws {
        var session = try SessionTests.session()
        let first = session.start()
        #expect(first.delay == .seconds(30))
        guard case .ping(let bytes, let second) = session.timerFired(first.id, now: 30 * SessionTests.second) else {
            throw Unexpected("no ping")
        }
        let ping = try stanza(String(decoding: bytes, as: UTF8.self))
        #expect(ping.child("ping", in: XMLNamespace.ping) != nil && second.delay == .seconds(15))
        #expect(session.timerFired(first.id, now: 45 * SessionTests.second) == .none)
        #expect(session.timerFired(second.id, now: 45 * SessionTests.second) == .dead)
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
        var session = try SessionTests.session()
        let first = session.start()
        guard case .ping(let bytes, let answer) = session.timerFired(first.id, now: 30 * SessionTests.second) else {
            throw Unexpected("no ping")
        }
        let pong = try SessionTests.pong(bytes, from: from, type: type)
        _ = session.stanza(pong, receivedAt: 0, parsedAt: 31 * SessionTests.second)
        let next = session.timerFired(answer.id, now: 45 * SessionTests.second)
        guard counts else { return #expect(next == .dead) }
        guard case .wait(let rest) = next else { throw Unexpected("given up though it has answered") }
        // Asked again an interval after the answer.
        #expect(rest.delay == .seconds(16))
        guard case .ping(let second, let last) = session.timerFired(rest.id, now: 61 * SessionTests.second) else {
            throw Unexpected("no second ping")
        }
        #expect(second != bytes)
        // An old answer is not the answer to this one.
        _ = session.stanza(pong, receivedAt: 0, parsedAt: 62 * SessionTests.second)
        #expect(session.timerFired(last.id, now: 76 * SessionTests.second) == .dead)
    }

    /// A peer whose every message comes through while nothing of ours reaches it.
    @Test func aBusyStreamIsAskedAsOftenAsAnIdleOne() throws {
        var session = try SessionTests.session()
        var timer = session.start()
        var pings = 0
        for tick in UInt64(1)...45 {
            let now = tick * SessionTests.second
            _ = session.stanza(try stanza(SessionTests.good), receivedAt: 0, parsedAt: now)
            guard tick == 30 || tick == 45 else { continue }
            switch session.timerFired(timer.id, now: now) {
            case .ping(_, let next):
                pings += 1
                timer = next
            case .dead: #expect(tick == 45 && pings == 1)
            case let action: Issue.record("\(action) after \(tick) s")
            }
        }
        #expect(session.canSend == false)
    }

    @Test func pausedReadingIsNotThePeersSilence() throws {
        var session = try SessionTests.session()
        let first = session.start()
        guard case .ping(_, let answer) = session.timerFired(first.id, now: 30 * SessionTests.second) else {
            throw Unexpected("no ping")
        }
        #expect(session.readingPaused(true, now: 31 * SessionTests.second) == .none)
        guard case .wait(let paused) = session.timerFired(answer.id, now: 45 * SessionTests.second) else {
            throw Unexpected("given up while paused")
        }
        guard case .wait = session.timerFired(paused.id, now: 500 * SessionTests.second) else {
            throw Unexpected("given up while paused")
        }
        // The clock goes on from where it stood: a second of the answer's 15 had passed.
        guard case .wait(let rest) = session.readingPaused(false, now: 501 * SessionTests.second) else {
            throw Unexpected("no timer after the pause")
        }
        #expect(rest.delay == .seconds(14))
        #expect(session.timerFired(rest.id, now: 515 * SessionTests.second) == .dead)
    }

    @Test(
        "a stream that pauses and resumes all the time is asked and judged all the same",
        arguments: [
            StreamManagement.Offer.unused, .missing,
        ]
    )
    func flapping(_ offer: StreamManagement.Offer) throws {
        let second = SessionTests.second
        var session = Session(
            configuration: SessionConfiguration(domain: "fcm.googleapis.com", idPrefix: "r"),
            codec: try makeCodec(dialect: offer == .unused ? .ccs : .xmpp),
            stream: BoundStream(
                address: try #require(JID("1234567890@fcm.googleapis.com/r")),
                greeting: [],
                management: offer
            ),
            now: 0
        )
        var due: [UInt64: UInt64] = [:]
        func set(_ timer: SessionTimer, _ now: UInt64) { due = [timer.id: now + timer.delay.nanoseconds] }
        set(session.start(), 0)
        var pings = 0
        // Half of the time paused: 5 ms each.
        for tick in UInt64(0)..<40_000 {
            let now = tick * 5_000_000
            if case .wait(let timer) = session.readingPaused(tick % 2 == 1, now: now) { set(timer, now) }
            guard let (id, at) = due.first, at <= now else { continue }
            switch session.timerFired(id, now: now) {
            case .wait(let timer): set(timer, now)
            case .ping(_, let timer):
                pings += 1
                // 30 s of reading.
                #expect(now >= 59 * second && now <= 71 * second)
                set(timer, now)
            case .dead:
                #expect(pings == 1 && now >= 89 * second && now <= 112 * second)
                return
            case let action: throw Unexpected("\(action)")
            }
        }
        Issue.record("never given up")
    }

    @Test func streamErrorsAreReadAndTheirTextIsNot() throws {
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

/// The two small values beside the session.
@Suite struct InFlightAndReconnectTests {
    @Test func readingPausesALittleAboveTheWindowAndResumesAtHalf() {
        var window = InFlightWindow(window: 100)
        for count in 1..<120 { #expect(window.took(bytes: 1) == .none, "\(count)") }
        #expect(window.took(bytes: 1) == .pause)
        #expect(window.took(bytes: 1) == .none && window.isPaused)
        #expect(window.settled(messages: 60, bytes: 60) == .none)
        #expect(window.settled(messages: 1, bytes: 1) == .resume)
        #expect(window.settled(messages: 60, bytes: 60) == .none && window.isEmpty)
    }

    @Test func bytesAreBoundedToo() {
        var window = InFlightWindow(window: 100, byteLimit: 1_000)
        #expect(window.took(bytes: 999) == .none)
        #expect(window.took(bytes: 1) == .pause)
        #expect(window.settled(messages: 1, bytes: 400) == .none)
        #expect(window.settled(messages: 1, bytes: 600) == .resume)
        // One message larger than the bound passes.
        #expect(window.took(bytes: 5_000) == .pause)
        #expect(window.settled(messages: 1, bytes: 5_000) == .resume)
    }

    @Test func aWorkingSessionReconnectsAtOnce() {
        var policy = ReconnectPolicy()
        _ = policy.delay(after: .failed, random: 1)
        #expect(policy.delay(after: .session(bound: .seconds(10), error: nil), random: 1) == .zero)
        #expect(policy.failures == 0)
        #expect(policy.delay(after: .session(bound: .seconds(10), error: .systemShutdown), random: 1) == .zero)
        #expect(
            policy.delay(after: .session(bound: .milliseconds(9_999), error: nil), random: 0.5) == .milliseconds(500)
        )
    }

    @Test func failuresBackOffWithFullJitter() {
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

    @Test func someEndsAreFailuresHoweverLongTheSessionWas() {
        for error in [StreamErrorCondition.policyViolation, .seeOtherHost] {
            var policy = ReconnectPolicy()
            #expect(policy.delay(after: .session(bound: .seconds(9_999), error: error), random: 1) == .seconds(1))
            #expect(policy.delay(after: .session(bound: .seconds(9_999), error: error), random: 1) == .seconds(2))
        }
        var policy = ReconnectPolicy()
        #expect(policy.delay(after: .session(bound: .seconds(9_999), error: .conflict), random: 0) >= .seconds(5))
        #expect(policy.delay(after: .session(bound: .seconds(9_999), error: .conflict), random: 1) == .seconds(7))
    }

    @Test func badXMLAfterStanzasIsAlwaysTheFirstFailure() {
        var policy = ReconnectPolicy()
        for _ in 0..<5 { _ = policy.delay(after: .failed, random: 1) }
        for _ in 0..<5 { #expect(policy.delay(after: .violated(afterStanzas: true), random: 1) == .seconds(1)) }
        #expect(policy.delay(after: .violated(afterStanzas: true), random: 0) == .milliseconds(100))
        // As the first thing on a stream it comes again at once, and reconnecting helps nobody.
        #expect(policy.delay(after: .violated(afterStanzas: false), random: 1) == .seconds(2))
        #expect(policy.delay(after: .violated(afterStanzas: false), random: 1) == .seconds(4))
    }

    @Test func aDrainingConnectionIsReplacedAtOnceButNotInALoop() {
        var policy = ReconnectPolicy()
        #expect(policy.delay(after: .draining(bound: .seconds(1)), random: 1) == .zero)
        #expect(policy.delay(after: .draining(bound: .seconds(1)), random: 1) == .seconds(2))
        #expect(policy.delay(after: .draining(bound: .seconds(60)), random: 1) == .zero)
        #expect(policy.failures == 0)
    }
}
