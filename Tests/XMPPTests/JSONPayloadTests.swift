import Testing
import Vocabulary
import XMLWire

@testable import XMPP

/// Messages in a JSON container (XEP-0335): the odd cases of docs/protocol.md, the fall-backs, and the answers.
@Suite struct JSONPayloadTests {
    static let device = "Sensor-7@Example.org/kitchen"
    static let every = PlainPayload(
        messageID: .stanzaID,
        from: .sender,
        categoryFrom: .localpart,
        category: "com.example.app"
    )

    static func codec(_ json: PlainPayload, scope: IDScope = .sender) throws -> UpstreamCodec {
        var settings = StreamSettings(
            senderID: "worker",
            domain: "example.org",
            dialect: .xmpp,
            trustedFrom: ["sensor-7@example.org", "sensor-8@example.org"],
            index: 3
        )
        settings.idScope = scope
        settings.payload = .plain(json)
        var codec = UpstreamCodec(settings)
        codec.bound(to: try #require(JID("worker@example.org/r")))
        return codec
    }

    static func container(_ json: String) -> String { "<json xmlns='urn:xmpp:json:0'>\(escaped(json.utf8))</json>" }

    static func decode(
        _ children: String,
        _ attributes: String = "id='s1' to='worker@example.org'",
        _ json: PlainPayload = PlainPayload(),
        from: String = device,
        scope: IDScope = .sender
    ) throws -> DecodedStanza {
        var codec = try codec(json, scope: scope)
        return codec.decode(
            try stanza("<message from='\(from)' \(attributes)>\(children)</message>"),
            receivedAt: 5,
            parsedAt: 7
        )
    }

    static func message(
        _ children: String,
        _ attributes: String = "id='s1' to='worker@example.org'",
        _ json: PlainPayload = PlainPayload(),
        from: String = device,
        scope: IDScope = .sender
    ) throws -> IncomingMessage {
        guard case .message(let message) = try decode(children, attributes, json, from: from, scope: scope) else {
            throw Unexpected("no message")
        }
        return message
    }

    static func ack(_ message: IncomingMessage) -> String {
        let encoder = AckEncoder(dialect: .xmpp)
        var bytes: [UInt8] = []
        encoder.encode(message, into: &bytes)
        #expect(bytes.count <= encoder.sizeLimit(of: message))
        return String(decoding: bytes, as: UTF8.self)
    }

    private static let whole = #"{"message_id":"1","from":"t","category":"c"}"#
    private static let good = container(
        #"{"message_id":"1","from":"t","category":"c","data":{"a":1.10},"ttl":5,"message_type":null}"#
    )

    @Test("with all members a container is read as a gcm is: the same key, fingerprint and parts")
    func sameAsGCM() throws {
        let json = #"{"message_id":"\u0031","from":"t","category":"c","data":{"a":1.10},"ttl":5}"#
        let message = try Self.message(Self.container(json), "id='s1'", Self.every)
        var gcm = UpstreamCodec(StreamSettings(senderID: "worker", domain: "example.org", index: 3))
        guard case .message(let wanted) = gcm.decode(try envelope(json), receivedAt: 5, parsedAt: 7) else {
            throw Unexpected("no message")
        }
        #expect(message.messageKey == wanted.messageKey && message.fingerprint == wanted.fingerprint)
        #expect(message.deviceKey == wanted.deviceKey && message.quarantine == nil && message.answer.isSent)
        #expect(message.text(message.data) == #"{"a":1.10}"# && message.text(message.extra) == #"{"ttl":5}"#)
        #expect(message.text(message.payload) == json)
        #expect(message.text(message.stanzaFrom) == Self.device)
        #expect(message.sender == 3 && message.receivedAt == 5 && message.parsedAt == 7)
    }

    /// What stands in the container, and what becomes of it.
    private static let oddTexts: [(String, String)] = [
        (#"{"message_id":"1","from":"t","category":"c"}"#, "upstream"),
        // Unreadable.
        ("", "malformed payload_misplaced"), ("[]", "malformed payload_not_json"),
        ("\"1\"", "malformed payload_not_json"), ("\u{feff}{}", "malformed payload_not_json"),
        ("{} {}", "malformed payload_not_json"), ("{\"a\":1,}", "malformed payload_not_json"),
        // No identity.
        ("{}", "malformed message_id_unusable"), (#"{"message_id":"1","category":"c"}"#, "malformed from_unusable"),
        (#"{"message_id":"1","message_id":"1","from":"t"}"#, "malformed identity_ambiguous"),
        // Acked.
        (#"{"message_id":"1","from":"t"}"#, "upstream category_unusable"),
        (#"{"message_id":"1","from":"t","category":"c","x":1,"x":2}"#, "upstream duplicate_key"),
        (#"{"message_id":"\u0000","from":"t","category":"c"}"#, "upstream text_unstorable"),
        (#"{"message_id":"\ud800","from":"t","category":"c"}"#, "upstream text_unstorable"),
        (#"{"message_id":"1","from":"t","category":"c","message_type":"x"}"#, "upstream message_type_unknown"),
        (#"{"message_id":"1","from":"t","category":"c","data":"\u0000"}"#, "upstream"),
        (#"{"message_id":"1","from":"t","category":"c","message_type":"receipt"}"#, "receipt"),
        (#"{"message_type":"ack","message_id":"1"}"#, "ack"),
    ]

    /// A message's children, and what becomes of it.
    private static let oddChildren: [(String, String)] = [
        // Prefixed and CDATA; beside other children.
        ("<j:json xmlns:j='urn:xmpp:json:0'><![CDATA[\(whole)]]></j:json>", "upstream"),
        ("<body>x</body>" + good + "<store xmlns='urn:xmpp:hints'/>", "upstream"),
        // No payload at all.
        ("<gcm xmlns='google:mobile:data'>\(whole)</gcm>", "other"),
        ("<json xmlns='urn:xmpp:json:1'>{}</json>", "other"),
        ("<json>{}</json>", "other"), ("", "other"), ("<body>\(whole)</body>", "other"),
        ("<forwarded xmlns='urn:xmpp:forward:0'>\(good)</forwarded>", "other"),
        // Unreadable.
        (good + good, "malformed payload_misplaced"),
        (good + "<gcm xmlns='google:mobile:data'/>", "malformed payload_misplaced"),
        ("<gcm xmlns='google:mobile:data'>{}</gcm>" + good, "malformed payload_misplaced"),
        ("<json xmlns='urn:xmpp:json:0'>{}<x/></json>", "malformed payload_misplaced"),
    ]

    @Test("the odd cases of docs/protocol.md")
    func oddCases() throws {
        let texts = Self.oddTexts.map { (Self.container($0.0), $0.1) }
        for (children, wanted) in texts + Self.oddChildren {
            #expect(word(try Self.decode(children)) == wanted, "\(children)")
        }
    }

    @Test("byte by byte, torn anywhere or whole, by libxml2 or without it, a message is the same")
    func torn() throws {
        let children = "<origin-id xmlns='urn:xmpp:sid:0' id='o1'/>" + Self.container(#"{"data":{"n":"é<&"}}"#)
        let xml = "<message from='\(Self.device)' id='s' to='a@example.org'>\(children)</message>"
        let wanted = try Self.message(children, "id='s' to='a@example.org'", Self.every)
        // A character reference is left to libxml2.
        for xml in [xml, xml.replacing("id='o1'", with: "id='o&#49;'")] {
            let bytes = Array(xml.utf8)
            let sizes = [1, 2, 3, 7, bytes.count] + (1..<bytes.count).map { -$0 }
            for size in sizes {
                let pieces =
                    size > 0
                    ? stride(from: 0, to: bytes.count, by: size).map { bytes[$0..<min($0 + size, bytes.count)] }
                    : [bytes[..<(-size)], bytes[(-size)...]]
                var codec = try Self.codec(Self.every)
                var found: [DecodedStanza] = []
                let framer = XMLFramer()
                for piece in [Array(streamHeader.utf8)[...]] + pieces {
                    try Array(piece).withUnsafeBytes { piece in
                        try framer.feed(piece) { event in
                            if case .stanza(let stanza) = event {
                                found.append(codec.decode(stanza, receivedAt: 5, parsedAt: 7))
                            }
                        }
                    }
                }
                guard found.count == 1, case .message(let message) = found[0] else { throw Unexpected("\(size)") }
                #expect(message.messageKey == wanted.messageKey && message.fingerprint == wanted.fingerprint)
                #expect(message.part(message.payload) == wanted.part(wanted.payload) && message.quarantine == nil)
            }
        }
    }

    @Test("who is not trusted and what is an error stay out, whatever the container holds")
    func outside() throws {
        #expect(word(try Self.decode(Self.good, from: "mallory@example.org/x")) == "untrusted")
        #expect(word(try Self.decode(Self.good, from: "sensor-7@example.org.evil.test")) == "untrusted")
        #expect(word(try Self.decode(Self.good, "type='error'")) == "error")
        let ack = Self.container(#"{"message_type":"ack","message_id":"1","to":"t"}"#)
        #expect(word(try Self.decode(ack, from: "worker@example.org/r")) == "untrusted")
    }

    @Test("a device cannot say that the connection drains")
    func noSignals() throws {
        for json in [
            #"{"message_type":"control","control_type":"CONNECTION_DRAINING"}"#,
            #"{"message_type":"nack","error":"CONNECTION_DRAINING"}"#,
        ] {
            let decoded = try Self.decode(Self.container(json))
            #expect(!decoded.announcesDraining, "\(word(decoded))")
            #expect(["control unknown", "nack unknown"].contains(word(decoded)))
        }
    }

    @Test("without a fall-back in the configuration nothing stands in for a missing member")
    func nothingByItself() throws {
        let everything = "<origin-id xmlns='urn:xmpp:sid:0' id='o1'/>" + Self.container(#"{"data":1}"#)
        #expect(word(try Self.decode(everything)) == "malformed message_id_unusable")
        let id = PlainPayload(messageID: .stanzaID)
        #expect(word(try Self.decode(everything, "id='s1'", id)) == "malformed from_unusable")
        let both = PlainPayload(messageID: .stanzaID, from: .sender)
        #expect(word(try Self.decode(everything, "id='s1'", both)) == "upstream category_unusable")
    }

    @Test("each fall-back is the effective value: of the key, the fingerprint and the ack")
    func fallbacks() throws {
        let bare = try Self.message(
            "<origin-id xmlns='urn:xmpp:sid:0' id='o1'/>" + Self.container(#" {"data":[1]} "#),
            "id='s1' to='Orders@Worker.example.org'",
            Self.every
        )
        let whole = try Self.message(
            Self.container(
                #"{"message_id":"o1","from":"sensor-7@example.org","category":"orders","data":[1]}"#
            ),
            "",
            Self.every
        )
        #expect(bare.quarantine == nil && bare.answer.isSent)
        #expect(bare.text(bare.messageID) == "o1" && bare.text(bare.registrationToken) == "sensor-7@example.org")
        #expect(bare.text(bare.category) == "orders" && bare.text(bare.data) == "[1]" && bare.extra == nil)
        #expect(bare.messageKey == whole.messageKey && bare.fingerprint == whole.fingerprint)
        #expect(bare.deviceKey == whole.deviceKey)
        let device = JSONPayloadTests.device
        #expect(
            Self.ack(bare)
                == #"<message to="\#(device)"><json xmlns="urn:xmpp:json:0">{"to":"sensor-7@example.org","message_id":"o1","#
                + #""message_type":"ack"}</json></message>"#
        )
        #expect(Self.ack(bare) == Self.ack(whole))
    }

    @Test("an origin-id comes before the stanza's id, and a server's stanza-id is none of the device's")
    func identities() throws {
        func id(_ children: String, _ attributes: String, _ from: PlainPayload.MessageID) throws -> String? {
            var json = Self.every
            json.messageID = from
            let message = try Self.message(children + Self.container("{}"), attributes, json)
            return message.text(message.messageID)
        }
        let origin = "<origin-id xmlns='urn:xmpp:sid:0' id='o'/>"
        let server = "<stanza-id xmlns='urn:xmpp:sid:0' id='srv' by='worker@example.org'/>"
        #expect(try id(origin, "id='s'", .stanzaID) == "o")
        #expect(try id(origin, "id='s'", .originID) == "o")
        #expect(try id(server, "id='s'", .stanzaID) == "s")
        #expect(try id(server, "id='s'", .originID) == nil)
        #expect(try id(server, "", .stanzaID) == nil)
        #expect(try id("<origin-id xmlns='urn:xmpp:sid:0' id=''/>", "id=''", .stanzaID) == nil)
        #expect(try id("<origin-id xmlns='urn:xmpp:sid:1' id='o'/>", "id='s'", .originID) == nil)
        #expect(try id("<x>\(origin)</x>", "", .originID) == nil)
        #expect(
            word(try Self.decode(origin + origin + Self.container("{}"), "id='s'", Self.every))
                == "malformed identity_ambiguous"
        )
    }

    @Test("a copy that comes again has the key of the first, whatever the server adds or rewrites")
    func redelivery() throws {
        let first = try Self.message(
            Self.container(#"{"data":{"n":1}}"#) + "<stanza-id xmlns='urn:xmpp:sid:0' id='a' by='worker@example.org'/>",
            "id='d1' to='worker@example.org'",
            Self.every
        )
        let again = try Self.message(
            "<delay xmlns='urn:xmpp:delay' stamp='2026-01-01T00:00:00Z'/>"
                + "<j:json xmlns:j='urn:xmpp:json:0'>{&quot;data&quot;:{&quot;n&quot;:1}}</j:json>"
                + "<stanza-id xmlns='urn:xmpp:sid:0' id='b' by='worker@example.org'/>",
            "to='worker@example.org' type='normal' id=\"d1\"",
            Self.every,
            from: "sensor-7@example.org/other-resource"
        )
        #expect(first.messageKey == again.messageKey && first.fingerprint == again.fingerprint)
        let other = try Self.message(
            Self.container(#"{"data":{"n":1}}"#),
            "id='d1' to='worker@example.org'",
            Self.every,
            from: "sensor-8@example.org/x",
            scope: .device
        )
        let own = try Self.message(
            Self.container(#"{"data":{"n":1}}"#),
            "id='d1' to='worker@example.org'",
            Self.every,
            scope: .device
        )
        #expect(own.messageKey != other.messageKey)
    }

    @Test("a member that is there and useless has no fall-back")
    func presentMembers() throws {
        for (json, wanted) in [
            (#"{"message_id":null}"#, "malformed message_id_unusable"),
            (#"{"message_id":""}"#, "malformed message_id_unusable"),
            (#"{"message_id":7}"#, "malformed message_id_unusable"), (#"{"from":null}"#, "malformed from_unusable"),
            (#"{"category":""}"#, "upstream category_unusable"), (#"{"category":3}"#, "upstream category_unusable"),
            (#"{"data":1,"data":2}"#, "upstream duplicate_key"),
            (#"{"message_id":"1","message_id":"2"}"#, "malformed identity_ambiguous"),
        ] {
            #expect(word(try Self.decode(Self.container(json), "id='s1'", Self.every)) == wanted, "\(json)")
        }
    }

    @Test("where no local part was addressed, the configured category stands in; a long one is refused with an ack")
    func categories() throws {
        func category(_ attributes: String) throws -> String? {
            let message = try Self.message(Self.container("{}"), "id='1' \(attributes)", Self.every)
            return message.text(message.category)
        }
        #expect(try category("to='a.b@worker.example.org/x'") == "a.b")
        #expect(try category("to='worker.example.org'") == "com.example.app")
        #expect(try category("to='@'") == "com.example.app")
        #expect(try category("") == "com.example.app")
        let long = String(repeating: "c", count: 256)
        let decoded = try Self.decode(Self.container("{}"), "id='1' to='\(long)@example.org'", Self.every)
        #expect(word(decoded) == "upstream field_too_long")
    }

    @Test("ids that try to break out of the JSON stay inside, and come back as they were")
    func hostileIDs() throws {
        for id in ["\"", "\\", "\",\"from\":\"x", "a\tb\nc", "</json>", "{\"", "\\u0000", "é\u{2028}", "'&<>"] {
            let message = try Self.message(Self.container("{}"), "id='\(escaped(id.utf8))'", Self.every)
            #expect(message.quarantine == nil && message.text(message.messageID) == id, "\(id)")
            let reply = try stanza(Self.ack(message))
            let json = try #require(reply.child("json", in: XMLNamespace.json))
            let text = Array(reply.bytes[reply.elements[json].text])
            var scanner = JSONScanner()
            let kind = try text.withUnsafeBufferPointer { text in try scanner.scan(text) }
            #expect(kind == .object)
            #expect(scanner.members.count == 3)
        }
        let over = String(repeating: "x", count: 4_097)
        #expect(
            word(try Self.decode(Self.container("{}"), "id='\(over)'", Self.every)) == "upstream field_too_long"
        )
    }
}
