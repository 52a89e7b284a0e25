import Testing
import XMLWire

@testable import XMPP

@Suite("Stream management: what the server has of what we sent")
struct OwnStanzaTests {
    private static func said(_ h: UInt32) throws -> Stanza { try stanza("<a xmlns='urn:xmpp:sm:3' h='\(h)'/>") }

    private static func active(after start: UInt32 = 0) throws -> StreamManagement {
        var management = StreamManagement(.offered, after: start)
        _ = management.receive(try stanza(Said.enabled))
        return management
    }

    @Test(
        "the server's count goes up to what was sent and never back, across 2^32 too",
        arguments: [0, UInt32.max - 2]
    )
    func bounds(_ start: UInt32) throws {
        var management = try OwnStanzaTests.active(after: start)
        management.wrote(5)
        #expect(management.sent == start &+ 5)
        for h in [start, start &+ 3, start &+ 3, start &+ 5] {
            #expect(management.receive(try OwnStanzaTests.said(h)) == .ignore)
            #expect(management.confirmed == h)
        }
        for h in [start &+ 6, start &+ 4, start, start &+ 0x8000_0000] {
            var copy = management
            guard case .refuse(let bytes) = copy.receive(try OwnStanzaTests.said(h)) else {
                throw Unexpected("took \(h)")
            }
            #expect(
                text(bytes).contains(
                    "<handled-count-too-high xmlns='urn:xmpp:sm:3' h='\(h)' send-count='\(start &+ 5)'/>"
                )
            )
            #expect(copy.confirmed == start &+ 5)
        }
    }

    @Test("it is asked at every hundredth stanza that is unknown, answered or not, behind our own answer")
    func questions() throws {
        var management = try OwnStanzaTests.active()
        management.wrote(99)
        #expect(management.progress() == nil)
        management.wrote()
        management.noted()
        #expect(management.progress().map(text) == "<a xmlns=\"urn:xmpp:sm:3\" h=\"1\"/><r xmlns=\"urn:xmpp:sm:3\"/>")
        management.wrote(99)
        #expect(management.progress() == nil)
        management.wrote(401)
        #expect(management.progress().map(text) == "<r xmlns=\"urn:xmpp:sm:3\"/>")
        #expect(management.progress() == nil)
        _ = management.receive(try OwnStanzaTests.said(600))
        management.wrote(99)
        #expect(management.progress() == nil)
        management.wrote(1)
        #expect(management.progress().map(text) == "<r xmlns=\"urn:xmpp:sm:3\"/>")
    }

    @Test("nothing is counted without stream management")
    func off() throws {
        for offer in [StreamManagement.Offer.unused, .missing] {
            var management = StreamManagement(offer)
            management.wrote(1_000)
            #expect(management.sent == 0 && management.progress() == nil)
        }
        // From the request on, as the server does (XEP-0198 section 4).
        var requested = StreamManagement(.offered)
        requested.wrote()
        _ = requested.receive(try stanza(Said.enabled))
        #expect(requested.receive(try OwnStanzaTests.said(1)) == .ignore)
    }

    @Test("every stanza that a session sends is counted: presence, pings, answers and acks")
    func sessionsCount() throws {
        let second: UInt64 = 1_000_000_000
        var session = try makeSession(.offered)
        _ = try session.hear(Said.enabled)
        #expect(session.management.sent == 1)
        let first = session.start()
        guard case .refresh(_, let next) = session.timerFired(first.id, now: 5 * second) else { throw Unexpected("no") }
        #expect(session.management.sent == 3)
        guard case .ping = session.timerFired(next.id, now: 30 * second) else { throw Unexpected("no ping") }
        #expect(session.management.sent == 4)
        guard case .reply = try session.hear("<iq type='get' id='1'><ping xmlns='urn:xmpp:ping'/></iq>") else {
            throw Unexpected("no reply")
        }
        #expect(session.management.sent == 5)
        // Not to be kept: this session can't be resumed.
        #expect(session.wrote(3) == nil && session.management.sent == 8)
        guard let long = session.readingPaused(true, now: 31 * second).timer else { throw Unexpected("no timer") }
        guard case .withdraw = session.timerFired(long.id, now: 41 * second) else { throw Unexpected("not withdrawn") }
        #expect(session.management.sent == 9)
        guard let back = session.readingPaused(false, now: 42 * second).timer,
            case .refresh = session.timerFired(back.id, now: 43 * second)
        else { throw Unexpected("not back") }
        #expect(session.management.sent == 10)
    }

    @Test("a count that can't be ends the stream, with the last word first; one that can be does not")
    func endOfTheStream() throws {
        var session = try makeSession(.offered)
        _ = try session.hear(Said.enabled)
        guard case .note(.other) = try session.hear("<a xmlns='urn:xmpp:sm:3' h='1'/>") else {
            throw Unexpected("ended")
        }
        guard case .end(let bytes, .miscounted) = try session.hear("<a xmlns='urn:xmpp:sm:3' h='2'/>") else {
            throw Unexpected("went on")
        }
        #expect(text(bytes).hasPrefix("<a xmlns=\"urn:xmpp:sm:3\" h=\"0\"/><stream:error>"))
        #expect(text(bytes).hasSuffix("</stream:error></stream:stream>"))
        #expect(session.canSend == false && session.isSuspended == false)
        #expect(
            session.ending(after: .miscounted, now: 99) == .session(bound: .nanoseconds(99), error: .policyViolation)
        )
        // While messages in flight settle as well; not behind our closing tag.
        var ending = try makeSession(.offered)
        _ = try ending.hear(Said.enabled)
        let message = try ending.deliver()
        _ = ending.close()
        var closed = try makeSession(.offered)
        _ = try closed.hear(Said.enabled)
        _ = closed.close()
        guard case .end(_, .miscounted) = try ending.hear("<a xmlns='urn:xmpp:sm:3' h='x'/>") else {
            throw Unexpected("on")
        }
        _ = message
        guard case .none = try closed.hear("<a xmlns='urn:xmpp:sm:3' h='x'/>") else { throw Unexpected("spoke") }
    }
}
