import Testing
import Vocabulary
import XMLWire

@testable import XMPP

@Suite("The archive: pages, whose results count, and how far they lead")
struct ArchiveTests {
    private static let domain = "fcm.googleapis.com"
    private static let own = "1234567890@\(domain)"
    static let point = ArchivePoint(id: "a0", time: Timestamp(microseconds: 1_700_000_000_000_000))

    private static func payload(_ id: String, from: String? = "devices@gcm.googleapis.com/x") -> String {
        let sender = from.map { " from='\($0)'" } ?? ""
        return "<message xmlns='jabber:client'\(sender) to='\(own)'><gcm xmlns='google:mobile:data'>"
            + "{\"message_id\":\"\(id)\",\"from\":\"t\",\"category\":\"c\"}</gcm></message>"
    }

    /// A result with this archive id.
    private static func result(
        _ id: String,
        _ message: String,
        query: String = "r-archive-1",
        from: String? = own,
        stamp: String = "2026-11-22T08:41:16Z"
    ) -> String {
        "<message\(from.map { " from='\($0)'" } ?? "")><result xmlns='urn:xmpp:mam:2' queryid='\(query)' id='\(id)'>"
            + "<forwarded xmlns='urn:xmpp:forward:0'><delay xmlns='urn:xmpp:delay' stamp='\(stamp)'/>\(message)"
            + "</forwarded></result></message>"
    }

    private static func end(
        _ last: String?,
        complete: Bool = false,
        id: String = "r-archive-1",
        from: String? = nil
    ) -> String {
        let set = last.map { "<set xmlns='http://jabber.org/protocol/rsm'><last>\($0)</last></set>" } ?? ""
        return "<iq type='result' id='\(id)'\(from.map { " from='\($0)'" } ?? "")>"
            + "<fin xmlns='urn:xmpp:mam:2'\(complete ? " complete='true'" : "")>\(set)</fin></iq>"
    }

    /// A session that has asked for the page after ``point``.
    private static func asked(_ request: ArchiveRequest = .after(point)) throws -> Session {
        var session = try makeSession(dialect: .xmpp)
        _ = session.ask(request)
        return session
    }

    private static func word(_ action: Session.StanzaAction) -> String {
        switch action {
        case .deliver(let message, _): "\(message.isArchived ? "archived" : "live") \(message.kind)"
        case .note(let kind): XMPPTests.word(kind)
        default: "-"
        }
    }

    @Test("queries: the archive's end, the messages after an id, and those since a time in whole seconds")
    func queries() throws {
        var session = try makeSession(dialect: .xmpp)
        let end = text(session.ask(.end) ?? [])
        #expect(end.contains("<max>1</max><before/>") && end.contains("queryid=\"r-archive-1\""))
        #expect(!end.contains(" to="))
        let after = text(session.ask(.after(ArchivePoint(id: "a<1", time: .now))) ?? [])
        #expect(after.contains("<max>100</max><after>a&lt;1</after>") && after.contains("id=\"r-archive-2\""))
        #expect(!after.contains("jabber:x:data"))
        let time = Timestamp(microseconds: 1_700_000_000_700_000)
        let since = text(session.ask(.after(ArchivePoint(time: time))) ?? [])
        #expect(since.contains("<field var=\"start\"><value>2023-11-14T22:13:20.000000Z</value></field>"))
        #expect(!since.contains("<after>"))
        let between = text(session.ask(.after(ArchivePoint(id: "a1"), until: time)) ?? [])
        #expect(between.contains("<field var=\"end\"><value>2023-11-14T22:13:20.000000Z</value></field>"))
        #expect(between.contains("<after>a1</after>") && !between.contains("start"))
        for query in [end, after, since, between] { _ = try stanza(query) }
    }

    @Test("a page ends when the last of its messages is committed, and not before")
    func committed() throws {
        var session = try Self.asked()
        var messages: [IncomingMessage] = []
        for (id, stamp) in [("1", "2026-11-22T08:41:16Z"), ("2", "2026-11-22T08:41:17Z")] {
            let action = try session.hear(Self.result("a\(id)", Self.payload(id), stamp: stamp))
            guard case .deliver(let message, _) = action else { throw Unexpected("not delivered") }
            #expect(message.isArchived && message.text(message.messageID) == id)
            #expect(message.text(message.extra)?.contains("2026-11-22T08:41:1") == true)
            messages.append(message)
        }
        #expect(Self.word(try session.hear(Self.end("a2"))) == "other")
        #expect(session.takeAnswer() == nil)
        _ = session.committed([messages[1]])
        #expect(session.takeAnswer() == nil)
        _ = session.committed([messages[0]])
        let last = ArchivePoint(id: "a2", time: try Timestamp(parsing: "2026-11-22T08:41:17Z"))
        #expect(session.takeAnswer() == .page(count: 2, last: last, isComplete: false))
        #expect(session.takeAnswer() == nil)
        // What comes late, and as if it had been asked for again, is nothing.
        #expect(Self.word(try session.hear(Self.result("a3", Self.payload("3")))) == "other")
    }

    @Test(
        "results of another archive, another query, or nobody's are no messages",
        arguments: [
            (own, "r-archive-1", "archived upstream"), (nil, "r-archive-1", "archived upstream"),
            ("1234567890@FCM.googleapis.com", "r-archive-1", "archived upstream"),
            ("\(own)/r", "r-archive-1", "other"), (domain, "r-archive-1", "other"),
            ("devices@gcm.googleapis.com", "r-archive-1", "other"), ("mallory@\(domain)", "r-archive-1", "other"),
            ("room@conference.\(domain)", "r-archive-1", "other"), ("", "r-archive-1", "other"),
            (own, "r-archive-2", "other"), (own, "", "other"),
        ] as [(String?, String, String)]
    )
    func sources(_ from: String?, _ query: String, _ expected: String) throws {
        var session = try Self.asked()
        #expect(Self.word(try session.hear(Self.result("a1", Self.payload("1"), query: query, from: from))) == expected)
        // Nobody else can end the page.
        #expect(Self.word(try session.hear(Self.end("a9", complete: true, from: "mallory@\(Self.domain)"))) == "other")
        #expect(Self.word(try session.hear(Self.end("a9", complete: true, id: "r-archive-2"))) == "other")
        #expect(session.takeAnswer() == nil)
    }

    @Test("results that nobody has asked for are no messages")
    func unasked() throws {
        var session = try makeSession(dialect: .xmpp)
        #expect(Self.word(try session.hear(Self.result("a1", Self.payload("1")))) == "other")
    }

    @Test(
        "the sender of a result's message is judged like a live one's",
        arguments: [
            ("devices@gcm.googleapis.com", "archived upstream"), (nil, "archived upstream"),
            ("mallory@\(domain)/x", "archived"), ("devices@gcm.googleapis.com.evil", "archived"),
            // Our own acks are in the archive as well.
            ("\(own)/r", "archived"),
        ] as [(String?, String)]
    )
    func trust(_ from: String?, _ expected: String) throws {
        var session = try Self.asked()
        #expect(Self.word(try session.hear(Self.result("a1", Self.payload("1", from: from)))) == expected)
    }

    @Test(
        "odd results hold nothing, or what a live stanza would be",
        arguments: [
            ("", "archived"), ("<message xmlns='jabber:client'/>", "archived"),
            (payload("1").replacing("jabber:client", with: "jabber:server"), "archived"),
            (
                "<message xmlns='jabber:client' type='error'><gcm xmlns='google:mobile:data'>{}</gcm></message>",
                "archived"
            ),
            ("<presence xmlns='jabber:client'/>", "archived"), ("<x xmlns='y'>\(payload("1"))</x>", "archived"),
            (payload("1").replacing("\"c\"", with: "3"), "archived upstream"),
            (payload("1").replacing("{", with: "["), "archived malformed"),
            (result("b", payload("1")), "archived"),
            (
                "<message xmlns='jabber:client'><gcm xmlns='google:mobile:data'>{\"message_type\":\"control\","
                    + "\"control_type\":\"CONNECTION_DRAINING\"}</gcm></message>", "archived"
            ),
        ]
    )
    func odd(_ message: String, _ expected: String) throws {
        var session = try Self.asked()
        #expect(Self.word(try session.hear(Self.result("a1", message))) == expected)
        #expect(session.isDraining == false && session.canSend)
    }

    @Test("a message that is longer than a live one may be is passed over, whatever surrounds it")
    func tooLong() throws {
        var settings = StreamSettings(
            senderID: "1234567890",
            domain: Self.domain,
            dialect: .xmpp,
            trustedFrom: ["devices@gcm.googleapis.com"]
        )
        let message = Self.payload("1")
        let address = try #require(JID("\(Self.own)/r"))
        for (limit, word) in [(message.utf8.count, "archived upstream"), (message.utf8.count - 1, "archived")] {
            settings.messageLimit = limit
            let stream = BoundStream(address: address, greeting: [], management: .unused)
            var session = Session(settings, idPrefix: "r", stream: stream, now: 0)
            _ = session.ask(.after(Self.point))
            #expect(Self.word(try session.hear(Self.result("a1", message))) == word)
        }
    }

    @Test("where any stanza is a message, the result's is, and the result itself is not")
    func anyStanza() throws {
        var settings = StreamSettings(
            senderID: "1234567890",
            domain: Self.domain,
            dialect: .xmpp,
            trustedFrom: ["devices@gcm.googleapis.com"]
        )
        var plain = PlainPayload()
        plain.forms = [.stanza]
        (plain.messageID, plain.from, plain.category) = (.stanzaID, .sender, "c")
        settings.payload = .plain(plain)
        let address = try #require(JID("\(Self.own)/r"))
        let stream = BoundStream(address: address, greeting: [], management: .unused)
        var session = Session(settings, idPrefix: "r", stream: stream, now: 0)
        _ = session.ask(.after(Self.point))
        let inner = "<message xmlns='jabber:client' from='devices@gcm.googleapis.com/x' id='7'><body>x</body></message>"
        let action = try session.hear(Self.result("a1", inner))
        guard case .deliver(let message, _) = action else { throw Unexpected("not delivered") }
        #expect(message.text(message.messageID) == "7" && message.isArchived)
        #expect(Self.word(try session.hear(Self.end("a1", complete: true))) == "other")
        _ = session.committed([message])
        let answer = session.takeAnswer()
        #expect(answer != nil)
    }

    @Test("a quarantined stanza keeps the bytes of its own message, whatever surrounds it")
    func verbatim() throws {
        var session = try Self.asked()
        let inner =
            "<message xmlns='jabber:client' from='devices@gcm.googleapis.com' a='&gt;\">'><!--x--><b/><gcm "
            .replacing("<!--x-->", with: "<![CDATA[</message><message>]]>")
            + "xmlns='google:mobile:data'>[1]</gcm></message>"
        let action = try session.hear(Self.result("a1", "<y xmlns='z'/><y xmlns='z'></y>" + inner))
        guard case .deliver(let message, _) = action else { throw Unexpected("not delivered") }
        #expect(message.text(message.stanza) == inner && message.quarantine == .payloadNotJSON)
    }

    @Test("an archive that sends more than it was asked for is read no further, and not believed")
    func overfull() throws {
        var session = try Self.asked()
        var messages: [IncomingMessage] = []
        for number in 1...150 {
            let action = try session.hear(Self.result("a\(number)", Self.payload("\(number)")))
            if case .deliver(let message, _) = action { messages.append(message) }
        }
        #expect(messages.count == ArchiveRequest.size)
        _ = try session.hear(Self.end("a150"))
        _ = session.committed(messages)
        let taken = session.takeAnswer()
        let answer = try #require(taken)
        var walk = ArchiveWalk(.after(Self.point))
        #expect(walk.answered(answer) == .fail(.overfull))
    }

    @Test("the first reading only finds the archive's end")
    func first() throws {
        var session = try Self.asked(.end)
        #expect(Self.word(try session.hear(Self.result("a7", Self.payload("7")))) == "archived")
        _ = try session.hear(Self.end("a7"))
        let taken = session.takeAnswer()
        let answer = try #require(taken)
        var walk = ArchiveWalk(.end)
        let last = ArchivePoint(id: "a7", time: try Timestamp(parsing: "2026-11-22T08:41:16Z"))
        #expect(walk.answered(answer) == .save(last, end: .complete))
        var empty = try Self.asked(.end)
        _ = try empty.hear(Self.end(nil, complete: true))
        #expect(empty.takeAnswer() == .page(count: 0, last: ArchivePoint(), isComplete: true))
    }

    @Test("the archive's refusal, and an answer without an end, are refusals")
    func refused() throws {
        var session = try Self.asked()
        _ = try session.hear(
            "<iq type='error' id='r-archive-1'><error type='cancel'>"
                + "<item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>"
        )
        #expect(session.takeAnswer() == .refused(.itemNotFound))
        var other = try Self.asked()
        _ = try other.hear("<iq type='result' id='r-archive-1'/>")
        #expect(other.takeAnswer() == .refused(.undefinedCondition))
    }

    @Test("a page of messages that can't be read is not the archive's end: anybody can write such a page")
    func unreadable() throws {
        var session = try Self.asked()
        for _ in 1...10 { _ = session.skipped(.message) }
        _ = try session.hear(Self.end("a10"))
        let taken = session.takeAnswer()
        let answer = try #require(taken)
        var walk = ArchiveWalk(.after(Self.point))
        let next = ArchivePoint(id: "a10", time: Self.point.time)
        #expect(walk.answered(answer) == .save(next, end: nil))
        #expect(walk.request == .after(next))
        // The last one, and a server that never says so.
        #expect(
            walk.answered(Self.page("a12", 0, complete: true))
                == .save(ArchivePoint(id: "a12", time: next.time), end: .complete)
        )
        var silent = ArchiveWalk(.after(Self.point))
        #expect(silent.answered(Self.page("a0", 0)) == .save(Self.point, end: .complete))
    }

    @Test(
        "what devices write to our full address after a page does not hold it up; whatever came before its end does",
        arguments: [false, true]
    )
    func busy(_ isArchivedLast: Bool) throws {
        let settings = StreamSettings(
            senderID: "1234567890",
            domain: Self.domain,
            dialect: .xmpp,
            trustedFrom: ["devices@gcm.googleapis.com"]
        )
        let address = try #require(JID("\(Self.own)/r"))
        let stream = BoundStream(address: address, greeting: [], management: .offered)
        var session = Session(settings, idPrefix: "r", stream: stream, now: 0)
        _ = try session.hear(Said.enabled)
        _ = session.ask(.after(Self.point))
        func deliver(_ xml: String) throws -> IncomingMessage {
            guard case .deliver(let message, _) = try session.hear(xml) else { throw Unexpected("not delivered") }
            return message
        }
        let live = try deliver(Self.payload("live").replacing(" xmlns='jabber:client'", with: ""))
        let archived = try deliver(Self.result("a1", Self.payload("1")))
        _ = try session.hear(Self.end("a1", complete: true))
        _ = try deliver(Self.payload("later").replacing(" xmlns='jabber:client'", with: ""))
        _ = session.committed([isArchivedLast ? live : archived])
        #expect(session.takeAnswer() == nil)
        _ = session.committed([isArchivedLast ? archived : live])
        #expect(session.isSettled == false)
        let answer = session.takeAnswer()
        #expect(answer != nil)
        #expect(session.takeAnswer() == nil)
    }
}
