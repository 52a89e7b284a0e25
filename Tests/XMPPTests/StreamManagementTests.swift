import Testing
import Vocabulary
import XMLWire

@testable import XMPP

@Suite("Stream management: how far we answer for what came")
struct StreamManagementTests {
    private static let failed =
        "<failed xmlns='urn:xmpp:sm:3'><unexpected-request xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>"

    private static func ack(_ h: UInt32) -> String { "<a xmlns=\"urn:xmpp:sm:3\" h=\"\(h)\"/>" }

    private static func active(after start: UInt32 = 0) throws -> StreamManagement {
        var management = StreamManagement(.offered, after: start)
        _ = management.receive(try stanza(Said.enabled))
        return management
    }

    private static var copy: IncomingMessage {
        IncomingMessage(kind: .upstream, bytes: [], stanza: ByteSpan(start: 0, count: 0))
    }

    // MARK: The counters

    enum Point: CaseIterable { case unused, missing, requested, active, refused }

    private static func reach(_ point: Point) throws -> StreamManagement {
        switch point {
        case .unused: return StreamManagement(.unused)
        case .missing: return StreamManagement(.missing)
        case .requested: return StreamManagement(.offered)
        case .active: return try active()
        case .refused:
            var management = StreamManagement(.offered)
            _ = management.receive(try stanza(failed))
            return management
        }
    }

    @Test("every element in every state")
    func everyStateWithEveryElement() throws {
        let zero = StreamManagement.ElementAction.send(Array(StreamManagementTests.ack(0).utf8))
        let unreadable = StreamManagement.ElementAction.refuse(StreamError.farewell(.invalidXML))
        let tooHigh = StreamManagement.ElementAction.refuse(
            Array(
                ("<stream:error><undefined-condition xmlns='urn:ietf:params:xml:ns:xmpp-streams'/>"
                    + "<handled-count-too-high xmlns='urn:xmpp:sm:3' h='4294967295' send-count='0'/></stream:error>"
                    + "</stream:stream>").utf8
            )
        )
        let table: [(String, [Point: StreamManagement.ElementAction])] = [
            (Said.enabled, [.requested: .decided(.enabled)]),
            (StreamManagementTests.failed, [.requested: .decided(.refused(.unexpectedRequest))]),
            ("<failed xmlns='urn:xmpp:sm:3'/>", [.requested: .decided(.refused(.undefinedCondition))]),
            (
                "<failed xmlns='urn:xmpp:sm:3' h='-1'><text xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'>x</text></failed>",
                [.requested: .decided(.refused(.undefinedCondition))]
            ),
            (Said.question, [.active: zero]),
            ("<a xmlns='urn:xmpp:sm:3' h='0'/>", [:]),
            ("<a xmlns='urn:xmpp:sm:3' h='4294967295'/>", [.active: tooHigh]),
            ("<a xmlns='urn:xmpp:sm:3' h='4294967296'/>", [.active: unreadable]),
            ("<a xmlns='urn:xmpp:sm:3' h='99999999999999999999999'/>", [.active: unreadable]),
            ("<a xmlns='urn:xmpp:sm:3' h='-7'/>", [.active: unreadable]),
            ("<a xmlns='urn:xmpp:sm:3' h=' 0'/>", [.active: unreadable]),
            ("<a xmlns='urn:xmpp:sm:3' h=''/>", [.active: unreadable]),
            ("<a xmlns='urn:xmpp:sm:3' h='NaN'/>", [.active: unreadable]),
            ("<a xmlns='urn:xmpp:sm:3'/>", [.active: unreadable]),
            ("<resumed xmlns='urn:xmpp:sm:3' h='5' previd='x'/>", [:]), ("<enable xmlns='urn:xmpp:sm:3'/>", [:]),
            ("<x xmlns='urn:xmpp:sm:3'/>", [:]),
        ]
        for point in Point.allCases {
            for (xml, expected) in table {
                var management = try StreamManagementTests.reach(point)
                #expect(management.receive(try stanza(xml)) == expected[point] ?? .ignore, "\(xml) in \(point)")
            }
            for xml in ["<presence/>", "<r/>", "<r xmlns='urn:xmpp:sm:2'/>", "<enabled xmlns='urn:xmpp:sm:30'/>"] {
                var management = try StreamManagementTests.reach(point)
                #expect(management.receive(try stanza(xml)) == .none, "\(xml) in \(point)")
            }
            var management = try StreamManagementTests.reach(point)
            management.noted()
            #expect(management.handled == (point == .active ? 1 : 0), "\(point)")
            #expect(
                management.progress().map(text)
                    == (point == .active ? StreamManagementTests.ack(1) : nil)
            )
            #expect(management.last().isEmpty == (point != .active))
            #expect(management.isActive == (point == .active) && management.isRequested == (point == .requested))
        }
    }

    @Test("h is the longest run of settled stanzas from the first")
    func handledIsTheLongestPrefixThatIsSettled() throws {
        var management = try StreamManagementTests.active()
        management.noted()
        #expect(management.handled == 1)
        let messages = (0..<4).map { _ in management.numbered(StreamManagementTests.copy) }
        management.noted()
        #expect(messages.map(\.stanzaNumber) == [2, 3, 4, 5] && management.handled == 1)
        management.settled([messages[1]])
        #expect(management.handled == 1)
        management.settled([messages[3], messages[0]])
        #expect(management.handled == 3)
        // Told twice, or told of a stranger: nothing moves.
        management.settled([messages[0], StreamManagementTests.copy])
        #expect(management.handled == 3)
        management.settled([messages[2]])
        #expect(management.handled == 6)
        management.settled([])
        #expect(management.handled == 6)
    }

    @Test("h never goes back and never passes an open message, in whatever order messages settle")
    func everyOrderOfSettling() throws {
        func permutations(_ items: [Int]) -> [[Int]] {
            guard items.count > 1 else { return [items] }
            return items.indices.flatMap { index in
                var rest = items
                let first = rest.remove(at: index)
                return permutations(rest).map { [first] + $0 }
            }
        }
        for start: UInt32 in [0, UInt32.max - 3] {
            for order in permutations(Array(0..<6)) {
                var management = try StreamManagementTests.active(after: start)
                let messages = (0..<6).map { _ in management.numbered(StreamManagementTests.copy) }
                var done: Set<Int> = []
                for index in order {
                    management.settled([messages[index]])
                    done.insert(index)
                    let prefix = (0..<6).prefix { done.contains($0) }.count
                    #expect(management.handled == start &+ UInt32(prefix), "\(order) from \(start)")
                }
            }
        }
    }

    @Test("counters wrap at 2^32")
    func countersWrapAt32Bits() throws {
        var management = try StreamManagementTests.active(after: .max - 1)
        let first = management.numbered(StreamManagementTests.copy)
        let second = management.numbered(StreamManagementTests.copy)
        let third = management.numbered(StreamManagementTests.copy)
        #expect([first, second, third].map(\.stanzaNumber) == [.max, 0, 1])
        management.settled([second, first])
        #expect(management.handled == 0)
        #expect(management.progress().map(text) == StreamManagementTests.ack(0))
        management.settled([third])
        #expect(management.progress().map(text) == StreamManagementTests.ack(1))
    }

    @Test("progress is told once")
    func progressIsToldOnce() throws {
        var management = try StreamManagementTests.active()
        #expect(management.progress() == nil)
        let message = management.numbered(StreamManagementTests.copy)
        #expect(management.progress() == nil)
        management.settled([message])
        #expect(management.progress().map(text) == StreamManagementTests.ack(1))
        #expect(management.progress() == nil)
        #expect(text(management.last()) == StreamManagementTests.ack(1))
        // The answer to a question counts as telling.
        management.noted()
        #expect(
            management.receive(try stanza(Said.question))
                == .send(Array(StreamManagementTests.ack(2).utf8))
        )
        #expect(management.progress() == nil)
    }

    @Test("random histories agree with the definition")
    func histories() throws {
        var random = SeededGenerator(state: 198)
        for _ in 0..<200 {
            var management = try StreamManagementTests.active(
                after: UInt32.random(in: .max - 20 ... .max, using: &random)
            )
            let start = management.handled
            var open: [(index: UInt32, message: IncomingMessage)] = []
            var count: UInt32 = 0
            for _ in 0..<100 {
                switch Int.random(in: 0..<4, using: &random) {
                case 0:
                    management.noted()
                    count += 1
                case 1, 2:
                    count += 1
                    open.append((count, management.numbered(StreamManagementTests.copy)))
                default:
                    let batch = open.filter { _ in Bool.random(using: &random) }
                    open.removeAll { item in batch.contains { $0.index == item.index } }
                    management.settled(batch.map(\.message).shuffled(using: &random))
                }
                #expect(management.handled == start &+ (open.first.map { $0.index - 1 } ?? count))
            }
        }
    }

    // MARK: In a session

    private static func managed() throws -> Session {
        var session = try makeSession(.offered)
        _ = try session.hear(Said.enabled)
        return session
    }

    /// The `h` that a question gets, or nil.
    private static func handled(_ session: inout Session) throws -> String? {
        guard case .answer(let bytes) = try session.hear(Said.question) else {
            return nil
        }
        let answer = try stanza(text(bytes))
        return answer.attribute("h", of: 0).map { answer.string($0) }
    }

    @Test(
        "every inbound stanza counts, whatever the codec makes of it; what is no stanza does not",
        arguments: [
            ("<presence/>", true), ("<presence type='unavailable' from='a@b/c'/>", true), ("<message/>", true),
            ("<message type='error'><gcm xmlns='google:mobile:data'>{}</gcm></message>", true),
            ("<message from='evil@x'><gcm xmlns='google:mobile:data'>{}</gcm></message>", true),
            ("<message><gcm xmlns='google:mobile:data'>{\"message_type\":\"ack\"}</gcm></message>", true),
            ("<message><gcm xmlns='google:mobile:data'>{\"message_type\":\"nack\"}</gcm></message>", true),
            ("<message><gcm xmlns='google:mobile:data'>{\"message_type\":\"control\"}</gcm></message>", true),
            ("<iq type='get' id='1'><ping xmlns='urn:xmpp:ping'/></iq>", true), ("<iq type='result' id='1'/>", true),
            ("<iq type='error' id='1'/>", true),
            ("<a xmlns='urn:xmpp:sm:3' h='1'/>", false), ("<x xmlns='y'/>", false),
            (Said.enabled, false), (failed, false), (Said.question, false),
        ]
    )
    func whatCounts(_ xml: String, _ counts: Bool) throws {
        var session = try StreamManagementTests.managed()
        _ = try session.hear(xml)
        #expect(try StreamManagementTests.handled(&session) == (counts ? "1" : "0"))
    }

    @Test("a message before <enabled/> is taken and not counted")
    func aMessageBesideTheAnswerToOurRequestIsTakenAndNotCounted() throws {
        var session = try makeSession(.offered)
        let early = try session.deliver()
        #expect(early.stanzaNumber == 0)
        #expect(try StreamManagementTests.handled(&session) == nil)
        let answer = try session.hear(Said.enabled)
        guard case .managed(.enabled) = answer else { throw Unexpected("not enabled") }
        let counted = try session.deliver()
        #expect(counted.stanzaNumber == 1)
        #expect(session.committed([early]).bytes.isEmpty)
        #expect(text(session.committed([early, counted]).bytes) == StreamManagementTests.ack(1))
    }

    @Test("only commits move h past a message")
    func onlyCommitsMoveH() throws {
        var session = try StreamManagementTests.managed()
        _ = try session.hear("<presence/>")
        let messages = try (0..<3).map { _ in try session.deliver() }
        #expect(try StreamManagementTests.handled(&session) == "1")
        // A neighbour that has not committed holds the others back.
        #expect(session.committed([messages[1], messages[2]]).bytes.isEmpty)
        #expect(try StreamManagementTests.handled(&session) == "1")
        #expect(text(session.committed([messages[0]]).bytes) == StreamManagementTests.ack(4))
    }

    @Test("a refusal is reported, and the session goes on")
    func aRefusalIsToldAndTheSessionGoesOn() throws {
        var session = try makeSession(.offered)
        let answer = try session.hear(StreamManagementTests.failed)
        guard case .managed(.refused(.unexpectedRequest)) = answer else { throw Unexpected("not refused") }
        let message = try session.deliver()
        #expect(message.stanzaNumber == 0 && session.committed([message]).bytes.isEmpty)
        #expect(try StreamManagementTests.handled(&session) == nil)
        guard case .close(let goodbye, _) = session.close() else { throw Unexpected("no goodbye") }
        #expect(text(goodbye) == "</stream:stream>")
    }

    @Test("a CCS never sees any of it", arguments: [StreamManagement.Offer.unused, .missing])
    func offMeansOff(_ offer: StreamManagement.Offer) throws {
        var session = try makeSession(offer)
        for xml in [Said.enabled, StreamManagementTests.failed, Said.question] {
            guard case .note(.other) = try session.hear(xml) else {
                throw Unexpected("an answer to \(xml)")
            }
        }
        let message = try session.deliver()
        #expect(message.stanzaNumber == 0 && session.committed([message]).bytes.isEmpty)
        #expect(session.start().delay == (offer == .unused ? .seconds(30) : .seconds(5)))
        #expect(text(session.farewell(.badFormat)).hasPrefix("<stream:error>"))
    }

    @Test("each way a stream can end says how far we answer, right before the end")
    func theLastWord() throws {
        func committedOne() throws -> Session {
            var session = try StreamManagementTests.managed()
            let first = try session.deliver()
            _ = try session.deliver()
            _ = session.committed([first])
            return session
        }
        let goodbye = StreamManagementTests.ack(1) + "</stream:stream>"
        var ours = try committedOne()
        _ = ours.close()
        guard case .close(let bytes, _) = ours.closeNow() else { throw Unexpected("no goodbye") }
        #expect(text(bytes) == goodbye)
        var theirs = try committedOne()
        guard case .settle(let timer?) = theirs.peerClosed() else { throw Unexpected("no time") }
        #expect(theirs.timerFired(timer.id, now: 0) == .end(Array(goodbye.utf8), .closedByPeer))
        var settled = try committedOne()
        _ = settled.peerClosed()
        #expect(settled.closeNow() == .end(Array(goodbye.utf8), .closedByPeer))
        var broken = try committedOne()
        #expect(
            text(broken.farewell(.policyViolation)).hasPrefix(
                StreamManagementTests.ack(1) + "<stream:error>"
            )
        )
        var error = try committedOne()
        guard case .end(let last, _) = try error.hear(Said.shutdown) else {
            throw Unexpected("no end")
        }
        #expect(text(last) == goodbye)
    }

    @Test("what is not taken is not answered for")
    func whatIsNotTakenIsNotAnsweredFor() throws {
        var session = try StreamManagementTests.managed()
        let first = try session.deliver()
        _ = session.close()
        // Reading stops with stanzas still on their way, and a question among them.
        guard case .none = try session.hear(Said.good) else {
            throw Unexpected("taken")
        }
        #expect(try StreamManagementTests.handled(&session) == "0")
        guard case .close(let bytes, _) = session.committed([first]).step else { throw Unexpected("no goodbye") }
        #expect(text(bytes) == StreamManagementTests.ack(1) + "</stream:stream>")
        // After our closing tag nothing may follow.
        #expect(try StreamManagementTests.handled(&session) == nil)
        #expect(session.committed([first]).bytes.isEmpty)
    }

    @Test("a server that never answers our request is left")
    func aServerThatDoesNotAnswerOurRequestIsGivenUp() throws {
        var session = try makeSession(.offered)
        let first = session.start()
        guard case .wait(var timer) = session.timerFired(first.id, now: 5_000_000_000) else {
            throw Unexpected("not waited for")
        }
        var now: UInt64 = 5_000_000_000
        // Soon again: once it is answered, there are pings to send.
        while now < 115_000_000_000 {
            #expect(timer.delay == .seconds(5))
            now += 5_000_000_000
            guard case .wait(let next) = session.timerFired(timer.id, now: now) else {
                throw Unexpected("not waited for")
            }
            timer = next
        }
        guard case .end(let bytes, .unmanaged) = session.timerFired(timer.id, now: 120_000_000_000) else {
            throw Unexpected("goes on without an answer")
        }
        #expect(text(bytes).hasSuffix("</stream:error></stream:stream>"))
        #expect(session.canSend == false)
        var answered = try makeSession(.offered)
        let second = answered.start()
        _ = try answered.hear(Said.enabled)
        guard case .refresh(_, let third) = answered.timerFired(second.id, now: 5_000_000_000) else {
            throw Unexpected("no second presence")
        }
        guard case .ping = answered.timerFired(third.id, now: 30_000_000_000) else { throw Unexpected("no ping") }
    }
}

extension StreamManagement {
    /// The message with its number.
    fileprivate mutating func numbered(_ message: IncomingMessage) -> IncomingMessage {
        var message = message
        number(&message)
        return message
    }
}
