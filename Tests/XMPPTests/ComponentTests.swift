import Testing
import Vocabulary

@testable import XMPP

/// What an external component takes from whom, and what it answers as.
@Suite struct ComponentTests {
    private static let trusted = ["example.com", "*@example.com", "relay@other.example", "Bücher@Bücher.example"]

    private static func settings(_ trusted: [String] = trusted) -> StreamSettings {
        StreamSettings(
            senderID: "upstream",
            domain: "upstream.example.com",
            dialect: .component,
            trustedFrom: trusted
        )
    }

    private static func codec(_ trusted: [String] = trusted) throws -> UpstreamCodec {
        var codec = UpstreamCodec(settings(trusted))
        // As the session does; the component's own domain does not become trusted by it.
        codec.bound(to: try #require(JID("upstream.example.com")))
        return codec
    }

    private static func decode(_ attributes: String, _ json: String? = nil) throws -> DecodedStanza {
        var codec = try codec()
        let stanza = try envelope(json ?? #"{"message_id":"1","from":"t","category":"c"}"#, attributes: attributes)
        return codec.decode(stanza, receivedAt: 0, parsedAt: 0)
    }

    private static func ack(_ attributes: String) throws -> String {
        guard case .message(let message) = try decode(attributes) else { throw Unexpected("not taken: \(attributes)") }
        let encoder = AckEncoder(dialect: .component, domain: "upstream.example.com")
        var bytes: [UInt8] = []
        encoder.encode(message, into: &bytes)
        #expect(bytes.count <= encoder.sizeLimit(of: message))
        // Exact where nothing is escaped; a trailing dot is dropped.
        if !attributes.contains("&"), !attributes.contains("./") {
            #expect(bytes.count == encoder.usualSize(of: message))
        }
        #expect(encoder.isAck(of: message, over: bytes.count) == false)
        #expect(encoder.isAck(of: message, over: bytes.count - 1))
        return text(bytes)
    }

    @Test(
        "an ack goes from the address that the message went to, to the stanza's sender",
        arguments: [
            ("orders@upstream.example.com", "orders@upstream.example.com"),
            ("orders@upstream.example.com/shelf 5", "orders@upstream.example.com/shelf 5"),
            ("upstream.example.com", "upstream.example.com"), ("upstream.example.com/x", "upstream.example.com/x"),
            // The domain is written as the server knows it, whatever spelling came: some compare bytes.
            ("orders@UPSTREAM.Example.COM", "orders@upstream.example.com"),
            ("orders@upstream.example.com./r", "orders@upstream.example.com/r"),
            ("o&amp;o@upstream.example.com/&lt;&quot;", "o&amp;o@upstream.example.com/&lt;&quot;"),
            ("bücher@upstream.example.com", "bücher@upstream.example.com"),
            ("*@upstream.example.com", "*@upstream.example.com"),
        ]
    )
    func ackAddresses(_ to: String, _ sender: String) throws {
        let ack = try ComponentTests.ack("from='alice@example.com/phone' to='\(to)'")
        #expect(
            ack
                == "<message id=\"\" to=\"alice@example.com/phone\" from=\"\(sender)\"><gcm xmlns=\"google:mobile:data\">"
                + #"{"to":"t","message_id":"1","message_type":"ack"}</gcm></message>"#
        )
    }

    @Test("a message without a to is for the domain itself")
    func noRecipient() throws {
        #expect(try ComponentTests.ack("from='alice@example.com/phone'").contains(" from=\"upstream.example.com\">"))
    }

    @Test(
        "a message for another domain is not taken: an ack from there would end the stream",
        arguments: [
            "example.com", "orders@example.com", "orders@other.upstream.example.com", "orders@xupstream.example.com",
            "orders@upstream.example.com.evil.example", "orders@upstream.example", "", "@upstream.example.com",
            "upstream.example.com@evil.example", "orders@evil.example/upstream.example.com",
            "orders@upstream.example.com/",
        ]
    )
    func foreignRecipient(_ to: String) throws {
        #expect(word(try ComponentTests.decode("from='alice@example.com' to='\(to)'")) == "untrusted")
    }

    @Test(
        "trust is the sender's parsed address, whole, and never a part of it",
        arguments: [
            ("alice@example.com", true), ("alice@example.com/phone", true), ("ALICE@EXAMPLE.com/x", true),
            ("alice@example.com./phone", true), ("example.com", true), ("example.com/x", true),
            ("*@example.com/x", true),
            ("relay@other.example/any", true), ("bücher@bücher.example/x", true),
            ("alice@sub.example.com", false), ("sub.example.com", false), ("alice@xexample.com", false),
            ("alice@example.com.evil.example", false), ("alice@evil.example/alice@example.com", false),
            ("alice@evil.example/@example.com", false), ("other@other.example", false), ("other.example", false),
            ("upstream.example.com", false), ("x@upstream.example.com", false), ("@example.com", false), ("", false),
            ("example.com@evil.example", false), ("alice@example.co", false), ("alice@com", false),
            ("alice@example.com/", false), ("alice@b\u{fc}cher.example.evil", false),
            ("a@bu\u{308}cher.example", false),
        ]
    )
    func trust(_ from: String, _ isTrusted: Bool) throws {
        let kind = word(try ComponentTests.decode("from='\(from)' to='orders@upstream.example.com'"))
        #expect(kind == (isTrusted ? "upstream" : "untrusted"))
    }

    @Test("a message without a from has nobody to ack to, and is nobody's")
    func noSender() throws {
        #expect(word(try ComponentTests.decode("to='orders@upstream.example.com'")) == "untrusted")
    }

    @Test("a wildcard with a resource stands for nothing, and one in another dialect for accounts all the same")
    func wildcards() throws {
        var codec = try ComponentTests.codec(["*@example.com/phone", "*@*", "a*@example.com"])
        for from in ["alice@example.com/phone", "alice@example.org", "a1@example.com"] {
            let stanza = try envelope(#"{"message_id":"1","from":"t","category":"c"}"#, attributes: "from='\(from)'")
            #expect(word(codec.decode(stanza, receivedAt: 0, parsedAt: 0)) == "untrusted", "\(from)")
        }
        var standard = try makeCodec(dialect: .xmpp, trusted: ["*@example.com"])
        for (from, kind) in [("alice@example.com/x", "upstream"), ("example.com", "untrusted")] {
            let stanza = try envelope(#"{"message_id":"1","from":"t","category":"c"}"#, attributes: "from='\(from)'")
            #expect(word(standard.decode(stanza, receivedAt: 0, parsedAt: 0)) == kind, "\(from)")
        }
    }

    @Test("acks, nacks and errors of devices are counted, and never acked or stored")
    func signals() throws {
        let attributes = "from='alice@example.com' to='orders@upstream.example.com'"
        for (json, kind) in [
            (#"{"message_type":"ack","message_id":"1","to":"t"}"#, "ack"),
            (#"{"message_type":"nack","message_id":"1","error":"BAD_ACK"}"#, "nack BAD_ACK"),
        ] {
            #expect(word(try ComponentTests.decode(attributes, json)) == kind)
        }
        #expect(word(try ComponentTests.decode(attributes + " type='error'")) == "error")
    }

    @Test("JSON containers are answered from the address written to as well, by a container or a receipt")
    func containers() throws {
        for (ack, content) in [
            (PlainPayload.Ack.json, "<json xmlns='urn:xmpp:json:0'>"),
            (.receipt, "<received xmlns='urn:xmpp:receipts' id='s1'/>"),
        ] {
            let payload = Payload.plain(PlainPayload(ack: ack, from: .sender, categoryFrom: .localpart))
            var settings = ComponentTests.settings()
            settings.payload = payload
            var codec = UpstreamCodec(settings)
            let xml =
                "<message from='alice@example.com/phone' to='orders@upstream.example.com' id='s1'>"
                + "<request xmlns='urn:xmpp:receipts'/><json xmlns='urn:xmpp:json:0'>{\"message_id\":\"1\"}</json></message>"
            guard case .message(let message) = codec.decode(try stanza(xml), receivedAt: 0, parsedAt: 0) else {
                throw Unexpected("not taken")
            }
            #expect(message.text(message.category) == "orders")
            var bytes: [UInt8] = []
            AckEncoder(dialect: .component, domain: "upstream.example.com").encode(message, into: &bytes)
            let sent = text(bytes).replacing("\"", with: "'")
            #expect(sent.contains(" to='alice@example.com/phone' from='orders@upstream.example.com'"))
            #expect(sent.contains(content), "\(sent)")
        }
    }

    // MARK: The session

    private static func session() throws -> Session {
        Session(
            settings(),
            idPrefix: "r",
            stream: BoundStream(address: try #require(JID("upstream.example.com")), greeting: []),
            now: 0
        )
    }

    @Test("queries are answered as the address that was asked, to who asks; without a from there is no answer")
    func queries() throws {
        var session = try ComponentTests.session()
        func answer(_ attributes: String, _ content: String = "<ping xmlns='urn:xmpp:ping'/>") throws -> String? {
            guard case .reply(let bytes) = try session.hear("<iq \(attributes)>\(content)</iq>") else { return nil }
            return text(bytes)
        }
        #expect(
            try answer("type='get' id='1' from='a@example.com/x' to='orders@upstream.example.com'")
                == #"<iq type="result" id="1" to="a@example.com/x" from="orders@upstream.example.com"/>"#
        )
        // Whoever asks, and whatever for; a `to` that is none of ours is not spoken for.
        for (to, from) in [
            ("upstream.example.com", "upstream.example.com"), ("a@evil.example", "upstream.example.com"),
        ] {
            let query = "<query xmlns='http://jabber.org/protocol/disco#info'/>"
            let reply = try answer("type='get' id='2' from='b@evil.example' to='\(to)'", query)
            #expect(reply?.contains(" to=\"b@evil.example\" from=\"\(from)\">") == true)
            #expect(reply?.contains("type=\"error\"") == true)
        }
        let info = try answer(
            "type='get' id='6' from='a@example.com' to='orders@upstream.example.com'",
            "<query xmlns='http://jabber.org/protocol/disco#info'/>"
        )
        #expect(info?.contains("<identity category=\"component\" type=\"generic\"") == true)
        #expect(
            try answer("type='get' id='3' from='a@example.com'")?.contains(" from=\"upstream.example.com\"/>") == true
        )
        #expect(try answer("type='get' id='4' to='upstream.example.com'") == nil)
        #expect(try answer("type='result' id='5' from='a@example.com' to='upstream.example.com'") == nil)
    }

    @Test("presence, subscriptions and probes are counted, and not answered")
    func presences() throws {
        var session = try ComponentTests.session()
        for type in ["", "type='subscribe'", "type='probe'", "type='unavailable'"] {
            let action = try session.hear("<presence \(type) from='a@example.com' to='orders@upstream.example.com'/>")
            guard case .note(.other) = action else { throw Unexpected("\(action)") }
        }
    }

    @Test("no device can have us open connections by what a CCS says when it drains one")
    func draining() throws {
        var session = try ComponentTests.session()
        let from = "from='alice@example.com' to='orders@upstream.example.com'"
        let drain = Said.drain.replacing("<message>", with: "<message \(from)>")
        guard case .note(.control(.connectionDraining)) = try session.hear(drain) else { throw Unexpected("drains") }
        #expect(session.isDraining == false)
    }

    @Test("an idle stream gets a space, and no answer is waited for: a server may give it to another connection")
    func keepalive() throws {
        var session = try ComponentTests.session()
        var timer = session.start()
        let second: UInt64 = 1_000_000_000
        for round in 1...5 as ClosedRange<UInt64> {
            #expect(timer.delay == .seconds(30))
            guard case .ping(let bytes, let next) = session.timerFired(timer.id, now: 30 * round * second) else {
                throw Unexpected("nothing is sent")
            }
            #expect(bytes == [0x20])
            timer = next
        }
        #expect(session.canSend == true)
    }
}
