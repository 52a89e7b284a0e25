import Testing
import Vocabulary

@testable import XMPP

/// PubSub events (XEP-0060, `payload: event`): the odd cases of docs/protocol.md, and several messages of one stanza.
@Suite struct EventTests {
    static let service = "sensor-7@example.org"

    /// An event with these entries in `<items/>`.
    static func event(_ entries: String, node: String = " node='news'") -> String {
        "<event xmlns='http://jabber.org/protocol/pubsub#event'><items\(node)>\(entries)</items></event>"
    }

    private static func plain(_ id: PlainPayload.MessageID = .none, category: String? = nil) -> PlainPayload {
        var plain = PlainPayload(ack: .receipt, messageID: id, category: category)
        plain.forms = [.event]
        return plain
    }

    private static func decode(
        _ children: String,
        _ plain: PlainPayload = plain(),
        _ attributes: String = "id='s1' type='headline'",
        from: String = service
    ) throws -> DecodedStanza {
        try JSONPayloadTests.decode(children, attributes, plain, from: from)
    }

    private static func messages(_ children: String, _ plain: PlainPayload = plain()) throws -> [IncomingMessage] {
        switch try decode(children, plain) {
        case .message(let message): [message]
        case .messages(let messages): messages
        default: throw Unexpected("no message")
        }
    }

    @Test("an item is a message: its node the category, its id the id, JSON or its element the data")
    func items() throws {
        let json = try Self.messages(
            Self.event("<item id='i1'>\(JSONPayloadTests.container(#" {"t": 1.0} "#))</item>")
        )[0]
        #expect(json.text(json.messageID) == "i1" && json.text(json.category) == "news")
        #expect(json.text(json.data) == #"{"t": 1.0}"# && json.extra == nil && json.quarantine == nil)
        #expect(json.text(json.registrationToken) == "sensor-7@example.org/news" && !json.answer.isSent)
        let entry =
            "<item id='i1' publisher='x'><entry xmlns='http://www.w3.org/2005/Atom'><title>a</title></entry></item>"
        let other = try Self.messages(Self.event(entry))[0]
        #expect(
            other.text(other.data)
                == #"{"name":"entry","xmlns":"http://www.w3.org/2005/Atom","children":[{"name":"title","text":"a"}]}"#
        )
        #expect(try #require(other.text(other.extra)).hasPrefix(#"{"stanza":"<message from='"#))
        let empty = try Self.messages(Self.event("<item id='i1'/>"))[0]
        #expect(empty.data == nil && empty.quarantine == nil && empty.extra == nil)
        let mixed = try Self.messages(Self.event("<item id='1'> a <json xmlns='urn:xmpp:json:0'>1</json></item>"))[0]
        #expect(mixed.text(mixed.data)?.contains(#""text":" a ""#) == true)
        // The same id at another node is another message, if ids are told apart by device.
        func key(_ node: String) throws -> Digest128 {
            let decoded = try JSONPayloadTests.decode(
                Self.event("<item id='i1'/>", node: " node='\(node)'"),
                "",
                Self.plain(),
                from: Self.service,
                scope: .device
            )
            guard case .message(let message) = decoded else { throw Unexpected("no message") }
            return message.messageKey
        }
        #expect(try key("a") != key("b") && key("a") == key("a"))
    }

    /// An event, and what becomes of it without and with `fallback.message_id: stanza_id`.
    private static let odd: [(String, String, String)] = [
        (event("<item id='1'/><item id='2'/>"), "upstream, upstream", "upstream, upstream"),
        (
            event("<item id='1'/><item/>"), "upstream, malformed message_id_unusable",
            "upstream, malformed message_id_unusable"
        ),
        (event("<item/>"), "malformed message_id_unusable", "upstream"),
        (event("<item id=''/>"), "malformed message_id_unusable", "upstream"),
        (event("<retract id='1'/>"), "malformed message_id_unusable", "upstream"),
        (
            event("<item id='1'/><retract id='1'/>"), "upstream, malformed message_id_unusable",
            "upstream, malformed message_id_unusable"
        ),
        (event(""), "malformed message_id_unusable", "upstream"),
        (
            event("<item id='1'>\(JSONPayloadTests.container("{"))</item>"), "upstream payload_not_json",
            "upstream payload_not_json"
        ),
        (
            event("<item>\(JSONPayloadTests.container("{"))</item>"), "malformed payload_not_json",
            "upstream payload_not_json"
        ),
        (
            event("<item id='1'><json xmlns='urn:xmpp:json:0'>1<x/></json></item>"), "upstream payload_not_json",
            "upstream payload_not_json"
        ),
        (event("<item id='1'>\(JSONPayloadTests.container("1"))<x xmlns='urn:x'/></item>"), "upstream", "upstream"),
        (event("<item id='1'>text</item>"), "upstream", "upstream"),
        (event("<item id='1'/>", node: ""), "upstream category_unusable", "upstream category_unusable"),
        (event("<item id='1'/>", node: " node=''"), "upstream category_unusable", "upstream category_unusable"),
        (
            event("<item id='1'/>", node: " node='\(String(repeating: "n", count: 256))'"), "upstream field_too_long",
            "upstream field_too_long"
        ),
        (
            "<event xmlns='http://jabber.org/protocol/pubsub#event'><purge node='news'/></event>",
            "malformed message_id_unusable", "upstream"
        ),
        (
            "<event xmlns='http://jabber.org/protocol/pubsub#event'><delete node='news'/></event>",
            "malformed message_id_unusable", "upstream"
        ),
        (
            "<event xmlns='http://jabber.org/protocol/pubsub#event'/>", "malformed message_id_unusable",
            "upstream category_unusable"
        ),
        ("<event xmlns='http://jabber.org/protocol/pubsub'/>", "other", "other"),
        ("<x xmlns='urn:x'>\(event("<item id='1'/>"))</x>", "other", "other"),
        ("<forwarded xmlns='urn:xmpp:forward:0'>\(event("<item id='1'/>"))</forwarded>", "other", "other"),
    ]

    @Test("the odd events of docs/protocol.md")
    func oddEvents() throws {
        for (children, wanted, withID) in Self.odd {
            #expect(word(try Self.decode(children)) == wanted, "\(children.prefix(200))")
            #expect(word(try Self.decode(children, Self.plain(.stanzaID))) == withID, "\(children.prefix(200))")
            #expect(word(try Self.decode(children, Self.plain(), "type='error'")) == "error")
            let stranger = try JSONPayloadTests.decode(children, "", Self.plain(), from: "pubsub.example.org")
            #expect(word(stranger) == (wanted == "other" ? "other" : "untrusted"))
        }
        let fallback = try Self.messages(Self.event("<item id='1'/>", node: ""), Self.plain(category: "c"))[0]
        #expect(fallback.text(fallback.category) == "c" && fallback.text(fallback.registrationToken) == Self.service)
        // Nobody asks a service's questions.
        let asking = try Self.messages(Self.event("<item id='1'/>") + "<request xmlns='urn:xmpp:receipts'/>")[0]
        #expect(asking.kind == .upstream && !asking.answer.isSent)
    }

    @Test("an event that would be held too often is kept as one")
    func tooMany() throws {
        let items = (1...200).map {
            "<item id='\($0)'><x xmlns='urn:x'>\(String(repeating: "x", count: 100))</x></item>"
        }
        let whole = try Self.messages(Self.event(items.joined()), Self.plain(.stanzaID))
        #expect(whole.count == 1 && whole[0].quarantine == nil && whole[0].text(whole[0].messageID) == "s1")
        #expect(whole[0].text(whole[0].data)?.contains(#""attributes":{"id":"200"}"#) == true)
        let lost = try Self.messages(Self.event(items.joined()))
        #expect(lost.count == 1 && lost[0].quarantine == .messageIDUnusable)
        #expect(try Self.messages(Self.event(items.prefix(50).joined())).count == 50)
    }

    @Test("PEP (XEP-0163): each account's node is its own, and an item id that is used again is the same message")
    func personal() throws {
        func publish(_ place: String, from: String = Self.service) throws -> DecodedStanza {
            let space = "http://jabber.org/protocol/geoloc"
            let item = "<item id='current'><geoloc xmlns='\(space)'><text>\(place)</text></geoloc></item>"
            return try Self.decode(
                Self.event(item, node: " node='\(space)'")
                    + "<addresses xmlns='http://jabber.org/protocol/address'>"
                    + "<address type='replyto' jid='\(from)/phone'/></addresses>",
                Self.plain(),
                "type='headline' to='worker@example.org/r'",
                from: from
            )
        }
        guard case .message(let first) = try publish("here"), case .message(let second) = try publish("there"),
            case .message(let other) = try publish("here", from: "sensor-8@example.org"),
            // The server speaks for our account.
            case .message(let own) = try publish("here", from: "worker@example.org")
        else { throw Unexpected("no message") }
        #expect(first.text(first.category) == "http://jabber.org/protocol/geoloc" && first.quarantine == nil)
        #expect(first.text(first.registrationToken) == "sensor-7@example.org/http://jabber.org/protocol/geoloc")
        #expect(first.messageKey == second.messageKey && first.fingerprint != second.fingerprint)
        #expect(first.deviceKey == second.deviceKey && Set([first, other, own].map(\.deviceKey)).count == 3)
        for stranger in ["worker@example.org/phone", "mallory@example.org", "sensor-7@example.com"] {
            #expect(word(try publish("here", from: stranger)) == "untrusted", "\(stranger)")
        }
    }

    @Test("h answers for a stanza of several messages when all of them are settled, in any order")
    func handled() throws {
        var settings = StreamSettings(
            senderID: "worker",
            domain: "example.org",
            dialect: .xmpp,
            trustedFrom: [Self.service]
        )
        settings.payload = .plain(Self.plain())
        let address = try #require(JID("worker@example.org/r"))
        let stream = BoundStream(address: address, greeting: [], management: .offered)
        var session = Session(settings, takesMessages: true, idPrefix: "r", stream: stream, now: 0)
        _ = try session.hear(Said.enabled)
        func hear(_ entries: String) throws -> [IncomingMessage] {
            switch try session.hear("<message from='\(Self.service)'>\(Self.event(entries))</message>") {
            case .deliver(let message, _): [message]
            case .deliverAll(let messages, _): messages
            default: throw Unexpected("not delivered")
            }
        }
        let first = try hear("<item id='1'/><item id='2'/><item id='3'/>")
        let second = try hear("<item id='4'/>")
        #expect(first.count == 3 && session.window.messages == 4)
        #expect(session.management.handled == 0)
        _ = session.committed([first[2]] + second)
        #expect(session.management.handled == 0)
        _ = session.committed([first[0]])
        #expect(session.management.handled == 0 && session.window.messages == 1)
        let settlement = session.committed([first[1]])
        #expect(session.management.handled == 2 && text(settlement.bytes).contains("h=\"2\""))
        let isSettled = session.isSettled
        #expect(isSettled)
    }
}
