import Testing
import Vocabulary
import XMLWire

@testable import XMPP

@Suite("The offline store: what is asked, what comes, and what is removed")
struct OfflineTests {
    private static let own = "1234567890@fcm.googleapis.com"

    /// A message of the store, with the node that the server gives it.
    private static func message(
        _ node: String?,
        from: String = "devices@gcm.googleapis.com/x",
        _ more: String = ""
    ) -> String {
        let tag =
            node.map { "<offline xmlns='http://jabber.org/protocol/offline'><item node='\($0)'/></offline>" } ?? ""
        return "<message from='\(from)'>\(more)<gcm xmlns='google:mobile:data'>"
            + "{\"message_id\":\"\(node ?? "live")\",\"from\":\"t\",\"category\":\"c\"}</gcm>\(tag)</message>"
    }

    private static func result(_ id: Int, _ content: String = "", from: String? = own) -> String {
        "<iq type='result' id='r-offline-\(id)'\(from.map { " from='\($0)'" } ?? "")>\(content)</iq>"
    }

    private static func refusal(_ id: Int, _ condition: String) -> String {
        "<iq type='error' id='r-offline-\(id)'><error type='cancel'>"
            + "<\(condition) xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>"
    }

    /// ejabberd's.
    private static func count(_ number: String, feature: String = "http://jabber.org/protocol/offline") -> String {
        "<query xmlns='http://jabber.org/protocol/disco#info' node='http://jabber.org/protocol/offline'>"
            + "<identity category='automation' type='message-list'/><feature var='\(feature)'/>"
            + "<x type='result' xmlns='jabber:x:data'><field var='FORM_TYPE' type='hidden'>"
            + "<value>http://jabber.org/protocol/offline</value></field>"
            + "<field var='number_of_messages' type='text-single'><value>\(number)</value></field></x></query>"
    }

    private static func list(_ nodes: [String]) -> String {
        let items = nodes.map { "<item node='\($0)' name='devices@ccs.test/d' jid='\(own)'/>" }.joined()
        return "<query xmlns='http://jabber.org/protocol/disco#items'>\(items)</query>"
    }

    /// Asks, hears this, and gives the answer, with all that was delivered committed.
    private static func answer(_ request: OfflineRequest, _ heard: [String]) throws -> OfflineAnswer? {
        var session = try makeSession(dialect: .xmpp)
        _ = session.ask(request)
        var messages: [IncomingMessage] = []
        for xml in heard {
            if case .deliver(let message, _) = try session.hear(xml) { messages.append(message) }
        }
        if !messages.isEmpty { _ = session.committed(messages) }
        return session.takeOfflineAnswer()
    }

    @Test("the queries go to our own account, in well-formed XML, each with an id of its own")
    func queries() throws {
        var session = try makeSession(dialect: .xmpp)
        let count = text(session.ask(.count) ?? [])
        #expect(count.contains("disco#info\" node=\"http://jabber.org/protocol/offline\"") && !count.contains(" to="))
        let list = text(session.ask(.list) ?? [])
        #expect(list.contains("disco#items\" node=\"http://jabber.org/protocol/offline\""))
        let view = text(session.ask(.view(["1", "a<\""])) ?? [])
        #expect(view.contains("type=\"get\"") && view.contains("<item action=\"view\" node=\"a&lt;&quot;\"/>"))
        let remove = text(session.ask(.remove(["1"])) ?? [])
        #expect(remove.contains("type=\"set\" id=\"r-offline-4\"") && remove.contains("action=\"remove\" node=\"1\""))
        for query in [count, list, view, remove] { _ = try stanza(query) }
        // ejabberd answers no ping while it looks for messages.
        #expect(session.writePatience == 8)
        _ = session.close()
        let late = session.ask(OfflineRequest.count)
        #expect(late == nil)
    }

    @Test("a page ends when the last of its messages is committed, and not before; nothing of it is counted as other")
    func committed() throws {
        var session = try makeSession(dialect: .xmpp)
        _ = session.ask(.view(["1", "2", "3"]))
        var messages: [IncomingMessage] = []
        for node in ["1", "2"] {
            guard case .deliver(let message, _) = try session.hear(Self.message(node)) else {
                throw Unexpected("not delivered")
            }
            #expect(!message.isArchived)
            messages.append(message)
        }
        // Nobody's message: it is judged, and as far as we are concerned it may go.
        guard case .note(.untrusted) = try session.hear(Self.message("3", from: "mallory@gcm.googleapis.com")) else {
            throw Unexpected("taken")
        }
        guard case .answer(let bytes) = try session.hear(Self.result(1)) else { throw Unexpected("counted") }
        #expect(bytes.isEmpty && session.takeOfflineAnswer() == nil)
        _ = session.committed([messages[1]])
        #expect(session.takeOfflineAnswer() == nil)
        _ = session.committed([messages[0]])
        #expect(session.takeOfflineAnswer() == .viewed(["1", "2", "3"]))
        #expect(session.takeOfflineAnswer() == nil)
    }

    @Test("only the nodes that were asked for count, each once, by the server's own word")
    func nodes() throws {
        // A live message; one with another's node; the device's word before the server's; the same again.
        let forged = "<offline xmlns='http://jabber.org/protocol/offline'><item node='2'/></offline>"
        let heard = [
            Self.message(nil), Self.message("9"), Self.message("1", from: "devices@gcm.googleapis.com/x", forged),
            Self.message("1"), Self.message("3").replacing("protocol/offline", with: "protocol/other"), Self.result(1),
        ]
        #expect(try Self.answer(.view(["1", "2", "3"]), heard) == .viewed(["1"]))
        // What can't be read does not come.
        #expect(try Self.answer(.view(["1"]), [Self.result(1)]) == .viewed([]))
        #expect(try Self.answer(.remove(["1"]), [Self.message("1"), Self.result(1)]) == .removed)
        #expect(try Self.answer(.view(["1"]), [Self.refusal(1, "item-not-found")]) == .refused(.itemNotFound))
    }

    @Test(
        "only our own account answers, to the query itself",
        arguments: [
            (own, 1, true), (nil, 1, true), ("\(own)/r", 1, false), ("fcm.googleapis.com", 1, false),
            ("mallory@fcm.googleapis.com", 1, false), (own, 2, false),
        ] as [(String?, Int, Bool)]
    )
    func sources(_ from: String?, _ id: Int, _ counts: Bool) throws {
        let answer = try Self.answer(.list, [Self.result(id, Self.list(["1"]), from: from)])
        #expect(answer == (counts ? .list(["1"]) : nil))
    }

    @Test(
        "how many there are: a number beside the feature, or there is no flexible retrieval",
        arguments: [
            (count("905"), .count(905)), (count("0"), .count(0)), (count("-1"), .refused(.featureNotImplemented)),
            (count("x"), .refused(.featureNotImplemented)), (count(""), .refused(.featureNotImplemented)),
            (count("9", feature: "msgoffline"), .refused(.featureNotImplemented)),
            ("", .refused(.featureNotImplemented)),
        ] as [(String, OfflineAnswer)]
    )
    func counts(_ content: String, _ expected: OfflineAnswer) throws {
        #expect(try Self.answer(.count, [Self.result(1, content)]) == expected)
    }

    // MARK: On a stream whose stanzas the server counts

    /// A session without presence, on which nothing has come yet.
    private static func reading(messageLimit: Int? = nil) throws -> Session {
        var settings = StreamSettings(
            senderID: "1234567890",
            domain: "fcm.googleapis.com",
            dialect: .xmpp,
            trustedFrom: ["devices@gcm.googleapis.com"]
        )
        settings.purpose = .store
        settings.messageLimit = messageLimit
        let address = try #require(JID("\(own)/r"))
        let stream = BoundStream(address: address, greeting: [], management: .offered)
        var session = Session(settings, idPrefix: "r", stream: stream, now: 0)
        _ = try session.hear(Said.enabled)
        return session
    }

    private static func delivered(_ action: Session.StanzaAction) throws -> IncomingMessage {
        guard case .deliver(let message, _) = action else { throw Unexpected("not delivered") }
        return message
    }

    @Test("what stays stored is answered for when it comes, what was written to our full address once it is committed")
    func counted() throws {
        var session = try Self.reading()
        _ = session.ask(.view(["1", "2"]))
        // Our query, and no presence.
        #expect(session.management.sent == 1)
        let first = try Self.delivered(try session.hear(Self.message("1")))
        #expect(session.management.handled == 1)
        let live = try Self.delivered(try session.hear(Self.message(nil)))
        let second = try Self.delivered(try session.hear(Self.message("2")))
        // The same node once more is no message of the store.
        let again = try Self.delivered(try session.hear(Self.message("2")))
        _ = try session.hear(Self.result(1))
        guard case .answer(let early) = try session.hear(Said.question) else { throw Unexpected("no answer") }
        #expect(text(early) == "<a xmlns=\"urn:xmpp:sm:3\" h=\"1\"/>")
        #expect(text(session.committed([live]).bytes) == "<a xmlns=\"urn:xmpp:sm:3\" h=\"3\"/>")
        #expect(session.committed([first, second]).bytes.isEmpty && session.takeOfflineAnswer() == nil)
        _ = session.committed([again])
        #expect(session.takeOfflineAnswer() == .viewed(["1", "2"]))
        guard case .close(let bytes, _) = session.close() else { throw Unexpected("not closed") }
        #expect(text(bytes) == "<a xmlns=\"urn:xmpp:sm:3\" h=\"5\"/></stream:stream>")
    }

    @Test(
        "what devices write to our full address after the answer does not hold it up; whatever came before it does",
        arguments: [false, true]
    )
    func busy(_ isStoredLast: Bool) throws {
        var session = try Self.reading()
        _ = session.ask(.view(["1"]))
        let live = try Self.delivered(try session.hear(Self.message(nil)))
        let stored = try Self.delivered(try session.hear(Self.message("1")))
        _ = try session.hear(Self.result(1))
        _ = try Self.delivered(try session.hear(Self.message(nil)))
        _ = session.committed([isStoredLast ? live : stored])
        #expect(session.takeOfflineAnswer() == nil)
        _ = session.committed([isStoredLast ? stored : live])
        #expect(session.isSettled == false && session.takeOfflineAnswer() == .viewed(["1"]))
        #expect(session.management.handled == 3)
    }

    @Test("a stream without presence never gives any, whatever happens to it")
    func noPresence() throws {
        var session = try Self.reading()
        var timer = session.start()
        #expect(timer.delay == .seconds(30))
        #expect(session.readingPaused(true, now: 1) == Session.Settlement())
        #expect(session.readingPaused(false, now: 2).timer == nil)
        var pings = 0
        for second in [30, 60, 90] as [UInt64] {
            guard case .ping(let bytes, let next) = session.timerFired(timer.id, now: second * 1_000_000_000 + 1) else {
                throw Unexpected("no ping")
            }
            pings += 1
            #expect(!text(bytes).contains("presence") && session.management.sent == UInt32(pings))
            let id = text(bytes).split(separator: "\"")[5]
            let pong = try stanza("<iq type='result' id='\(id)'/>")
            _ = session.stanza(pong, receivedAt: 0, parsedAt: second * 1_000_000_000 + 1)
            guard case .wait(let later) = session.timerFired(next.id, now: second * 1_000_000_000 + 2) else {
                throw Unexpected("no wait")
            }
            timer = later
        }
    }

    @Test("a message longer than a stream with presence takes stays stored; a reference counts as one byte")
    func tooLong() throws {
        let body = { (part: String) in "<body>" + String(repeating: part, count: 600) + "</body>" }
        var session = try Self.reading(messageLimit: 1_000)
        _ = session.ask(.view(["1", "2", "3"]))
        _ = try Self.delivered(try session.hear(Self.message("1", body("&quot;"))))
        guard case .note(.other) = try session.hear(Self.message("2", body("xx"))) else { throw Unexpected("taken") }
        // Not counted as a message, but by the server.
        #expect(session.management.handled == 2)
        // Only messages: the answer may be long.
        _ = try session.hear(Self.result(1, body("xxx")))
        #expect(session.isSettled == false && session.takeOfflineAnswer() == nil)
        var list = try Self.reading(messageLimit: 1_000)
        _ = list.ask(.list)
        _ = try list.hear(Self.result(1, Self.list((0..<100).map { "n\($0)" })))
        guard case .list(let nodes) = list.takeOfflineAnswer() else { throw Unexpected("no list") }
        #expect(nodes.count == 100)
    }

    // MARK: Lists

    @Test("a list's odd items are left out; one that can't be read is a refusal, a stranger's IQ is nothing")
    func lists() throws {
        let long = String(repeating: "n", count: 101)
        let odd = Self.list(["", long, "2"]).replacing(
            "</query>",
            with: "<item jid='x'/><x/><item xmlns='y' node='3'/></query>"
        )
        #expect(try Self.answer(.list, [Self.result(1, odd)]) == .list(["2"]))
        #expect(try Self.answer(.list, [Self.result(1)]) == .list([]))
        var session = try makeSession(dialect: .xmpp)
        _ = session.ask(OfflineRequest.list)
        let own = Array("r-offline-1".utf8)
        for (name, id) in [(.message, own), (.iq, nil), (.iq, Array("r-offline-2".utf8))] as [(StanzaName, [UInt8]?)] {
            _ = session.skipped(name, id: id)
            #expect(session.takeOfflineAnswer() == nil)
        }
        _ = session.skipped(.iq, id: own)
        #expect(session.takeOfflineAnswer() == .refused(.resourceConstraint))
    }

    @Test("the same stanza is the same JSON, stored offline or not")
    func canonical() throws {
        let live = try stanza("<message><body>x</body></message>")
        let stored = try stanza(
            "<message><body>x</body><offline xmlns='http://jabber.org/protocol/offline'><item node='1'/></offline></message>"
        )
        #expect(StanzaJSON.object(0, of: live) == StanzaJSON.object(0, of: stored))
    }
}
