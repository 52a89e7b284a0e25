import Testing
import Vocabulary

@testable import XMLWire
@testable import XMPP

/// Every state of a session × every event, under stream management, with one message in flight.
@Suite("A session's states and events")
struct SessionTableTests {
    enum Point: CaseIterable { case open, draining, ours, peers, refusal, closing, ended }

    private static let badXML = XMLStreamError(.comment)

    /// A session in this state, and the message that it has in flight.
    private static func reach(_ point: Point, _ body: (inout Session, IncomingMessage) throws -> Void) throws {
        var session = try makeSession(.offered, dialect: .ccs)
        _ = session.start()
        _ = try session.hear(Said.enabled)
        let message = try session.deliver()
        switch point {
        case .open: break
        case .draining: _ = try session.hear(Said.drain)
        case .ours: _ = session.close()
        case .peers: _ = session.peerClosed()
        case .refusal: _ = session.violated(badXML, inStanza: true)
        case .closing:
            _ = session.close()
            _ = session.closeNow()
        case .ended: session.transportClosed()
        }
        try body(&session, message)
    }

    /// Bytes in short: `aN` answers for N stanzas, `!` is a stream error, `/` the closing tag.
    private static func word(_ bytes: [UInt8]) -> String {
        text(bytes).replacing("<a xmlns=\"urn:xmpp:sm:3\" h=\"", with: "a").replacing("\"/>", with: "")
            .replacing(
                "<stream:error><restricted-xml xmlns=\"urn:ietf:params:xml:ns:xmpp-streams</stream:error>",
                with: "!"
            )
            .replacing("</stream:stream>", with: "/")
    }

    private static func word(_ outcome: SessionOutcome) -> String {
        switch outcome {
        case .closedByUs: "closedByUs"
        case .closedByPeer: "closedByPeer"
        case .miscounted: "miscounted"
        case .streamError(let error): error.condition.rawValue
        case .violation(_, let isAnswered): isAnswered ? "answered" : "violation"
        case .silent: "silent"
        case .unmanaged: "unmanaged"
        }
    }

    private static func word(_ step: Session.EndStep) -> String {
        switch step {
        case .none: "-"
        case .settle(nil): "settle"
        case .settle(let timer?): "settle \(timer.delay.nanoseconds / 1_000_000_000)s"
        case .close(let bytes, let timer): "close \(word(bytes)) \(timer.delay.nanoseconds / 1_000_000_000)s"
        case .end(let bytes, let outcome): "\(word(outcome)) \(word(bytes))"
        }
    }

    private static func word(_ action: Session.StanzaAction) -> String {
        switch action {
        case .deliver, .deliverAll: "deliver"
        case .note(let kind): "note \(XMPPTests.word(kind))"
        case .drain(_, let timer): timer.map { "drain \($0.delay.nanoseconds / 1_000_000_000)s" } ?? "drain"
        case .reply(let bytes), .answer(let bytes): word(bytes)
        case .managed: "managed"
        case .rival: "rival"
        case .end(let bytes, let outcome): "\(word(outcome)) \(word(bytes))"
        case .none: "-"
        }
    }

    private static func word(_ action: Session.TimerAction) -> String {
        switch action {
        case .none: "-"
        case .wait: "wait"
        case .ping: "ping"
        case .refresh: "refresh"
        case .withdraw: "withdraw"
        case .leave(let step), .drainExpired(let step): word(step)
        case .end(let bytes, let outcome): "\(word(outcome)) \(word(bytes))"
        }
    }

    enum Event: CaseIterable {
        case message, drain, error, question, skipped, close, closeNow, peerClosed, badStanza, badXML, committed
        case lateTimer, timer, drainingTimer, transportClosed
    }

    private static func tell(_ session: inout Session, _ event: Event, _ message: IncomingMessage) throws -> String {
        switch event {
        case .message: return word(try session.hear(Said.good))
        case .drain: return word(try session.hear(Said.drain))
        case .error: return word(try session.hear(Said.shutdown))
        case .question: return word(try session.hear(Said.question))
        case .skipped: return session.skipped(.message) ? "counted" : "-"
        case .close: return word(session.close())
        case .closeNow: return word(session.closeNow())
        case .peerClosed: return word(session.peerClosed())
        case .badStanza, .badXML:
            let action = session.violated(badXML, inStanza: event == .badStanza)
            return (action.isCounted ? "counted " : "") + word(action.step)
        case .committed:
            let settlement = session.committed([message])
            #expect(session.isSettled == true)
            #expect(settlement.timer == nil)
            return word(settlement.bytes) + word(settlement.step)
        case .lateTimer: return word(session.timerFired(999, now: 0))
        case .timer: return word(session.timerFired(session.timer.id, now: 0))
        case .drainingTimer: return word(session.timerFired(Session.drainingTimerID, now: 0))
        case .transportClosed:
            session.transportClosed()
            #expect(session.canSend == false)
            #expect(session.wantsInput == false)
            return "-"
        }
    }

    /// For each event the answers in the order of ``Point``.
    private static let table: [Event: [String]] = [
        .message: ["deliver", "deliver", "-", "-", "-", "-", "-"],
        .drain: ["drain 600s", "drain", "-", "-", "-", "-", "-"],
        .error: [
            "system-shutdown a0/", "system-shutdown a0/", "system-shutdown a0/", "system-shutdown a0/",
            "system-shutdown a0/", "system-shutdown ", "-",
        ],
        .question: ["a0", "a0", "a0", "a0", "a0", "-", "-"],
        .skipped: ["counted", "counted", "-", "-", "-", "-", "-"],
        .close: ["settle", "settle", "-", "-", "-", "-", "-"],
        .closeNow: ["close a0/ 2s", "close a0/ 2s", "close a0/ 2s", "closedByPeer a0/", "answered a0!/", "-", "-"],
        .peerClosed: ["settle 2s", "settle 2s", "settle 2s", "-", "-", "closedByUs ", "-"],
        .badStanza: [
            "counted settle", "counted settle", "violation a0!/", "violation a0!/", "-", "violation ", "-",
        ],
        .badXML: ["violation a0!/", "violation a0!/", "violation a0!/", "violation a0!/", "-", "violation ", "-"],
        .committed: ["a1-", "a2-", "close a1/ 2s", "closedByPeer a1/", "answered a2!/", "-", "-"],
        .lateTimer: ["-", "-", "-", "-", "-", "-", "-"],
        .timer: ["wait", "wait", "-", "closedByPeer a0/", "-", "closedByUs ", "-"],
        .drainingTimer: ["-", "settle", "-", "-", "-", "-", "-"],
        .transportClosed: ["-", "-", "-", "-", "-", "-", "-"],
    ]

    @Test("Each event has one answer in each state", arguments: Event.allCases)
    func everyStateWithEveryEvent(_ event: Event) throws {
        let answers = try #require(SessionTableTests.table[event])
        for (point, answer) in zip(Point.allCases, answers) {
            try SessionTableTests.reach(point) { session, message in
                let said = try SessionTableTests.tell(&session, event, message)
                #expect(said == answer, "\(event) in \(point)")
            }
        }
    }

    @Test("What may be written and is read follows from the state alone")
    func readingAndWriting() throws {
        for (index, point) in Point.allCases.enumerated() {
            try SessionTableTests.reach(point) { session, _ in
                #expect(session.canSend == (index < 5), "\(point)")
                #expect(session.wantsInput == [true, true, false, false, false, true, false][index], "\(point)")
                #expect(session.isSettled == false, "\(point)")
            }
        }
    }

    @Test("With nothing in flight an end does not wait")
    func nothingInFlight() throws {
        var ours = try makeSession()
        #expect(SessionTableTests.word(ours.close()) == "close / 2s")
        var peers = try makeSession()
        #expect(SessionTableTests.word(peers.peerClosed()) == "closedByPeer /")
        var refusal = try makeSession(.offered, dialect: .ccs)
        _ = try refusal.hear(Said.enabled)
        let action = refusal.violated(SessionTableTests.badXML, inStanza: true)
        #expect(action.isCounted && SessionTableTests.word(action.step) == "answered a1!/")
    }

    @Test("A full window stops reading, half of it empty resumes; a session that takes no messages never stops")
    func window() throws {
        var session = try makeSession(.missing, window: 1)
        var messages: [IncomingMessage] = []
        for count in 1...9 {
            guard case .deliver(let message, let timer) = try session.hear(Said.good) else {
                throw Unexpected("not delivered")
            }
            messages.append(message)
            #expect(session.wantsInput == (count < 9))
            // A long pause makes the server store messages.
            #expect(timer?.delay == (count < 9 ? nil : Presence.shortestPause))
        }
        #expect(session.committed(Array(messages[..<4])).timer == nil)
        #expect(session.wantsInput == false)
        // Reading again, the keepalive has its turn.
        #expect(session.committed([messages[4]]).bytes.isEmpty)
        #expect(session.wantsInput == true)

        var passing = try makeSession(window: nil)
        for _ in 0..<50 {
            guard case .none = try passing.hear(Said.good) else { throw Unexpected("taken") }
        }
        #expect(passing.wantsInput == true)
        #expect(passing.isSettled == true)
    }

    @Test("A violation counts as a failure, with or without stanzas before it; an orderly end as the time it was bound")
    func endings() throws {
        var session = try makeSession()
        let second: UInt64 = 1_000_000_000
        let violation = SessionOutcome.violation(SessionTableTests.badXML, isAnswered: false)
        #expect(session.ending(after: violation, now: second) == .violated(afterStanzas: false))
        _ = try session.deliver()
        #expect(session.ending(after: violation, now: second) == .violated(afterStanzas: true))
        #expect(session.ending(after: .unmanaged, now: second) == .session(bound: .seconds(1), error: .policyViolation))
        for outcome in [SessionOutcome.closedByUs, .closedByPeer, .silent, nil] {
            #expect(session.ending(after: outcome, now: 3 * second) == .session(bound: .seconds(3), error: nil))
        }
        guard case .end(_, let conflict) = try session.hear(Said.shutdown) else { throw Unexpected("goes on") }
        #expect(session.ending(after: conflict, now: 0) == .session(bound: .zero, error: .systemShutdown))
    }
}
