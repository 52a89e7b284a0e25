import Foundation
import Testing
import Vocabulary
import XMLWire

@testable import XMPP

/// Bodies and whole stanzas (configuration key `payload`): the odd cases of docs/protocol.md, ids, and answers.
@Suite struct PayloadFormTests {
    static let origin = "<origin-id xmlns='urn:xmpp:sid:0' id='o1'/>"

    /// These forms, with every fallback and receipts.
    static func plain(
        _ forms: PayloadForm...,
        json: Bool = false,
        id: PlainPayload.MessageID = .stanzaID,
        category: PlainPayload.CategoryFrom = .none
    ) -> PlainPayload {
        var plain = PlainPayload(readsJSON: json, ack: .receipt, messageID: id, from: .sender, categoryFrom: category)
        plain.forms = forms
        plain.category = "c"
        return plain
    }

    static func message(
        _ children: String,
        _ plain: PlainPayload,
        _ attributes: String = "id='s1' to='worker@example.org'",
        from: String = JSONPayloadTests.device
    ) throws -> IncomingMessage {
        try JSONPayloadTests.message(children, attributes, plain, from: from)
    }

    private static let json = JSONPayloadTests.container(#"{"message_id":"1","from":"t","category":"c"}"#)
    private static let forwarded =
        "<forwarded xmlns='urn:xmpp:forward:0'><message xmlns='jabber:client'><body>x</body></message></forwarded>"

    /// A message's children and attributes, and what becomes of it with `payload: [json, body]`.
    private static let odd: [(String, String, String)] = [
        ("<body>x</body>", "id='1'", "upstream"), ("<body/>", "id='1'", "upstream"),
        ("<body>\(String(repeating: "x", count: 100_000))</body>", "id='1'", "upstream"),
        (json + "<body>x</body>", "", "upstream"), ("<body>x</body>" + json, "", "upstream"),
        (JSONPayloadTests.container("{") + "<body>x</body>", "id='1'", "malformed payload_not_json"),
        ("<body>x</body>", "id='1' type='groupchat'", "upstream"),
        ("<body>x</body>", "id='1' type='headline'", "upstream"), ("<body>x</body>", "id='1' type='error'", "error"),
        ("<body>x</body>", "id='1' type='nonsense'", "upstream"),
        // No id.
        ("<body>x</body>", "", "malformed message_id_unusable"),
        ("<body>x</body>", "id=''", "malformed message_id_unusable"),
        ("<body>x</body>" + origin + origin, "id='1'", "malformed identity_ambiguous"),
        ("<body>x</body>", "id='\(String(repeating: "i", count: 4_097))'", "upstream field_too_long"),
        // Several.
        ("<body>x</body><body xml:lang='de'>y</body>", "id='1'", "upstream"),
        ("<body xml:lang='en'>x</body><body xml:lang='de'>y</body>", "id='1'", "upstream"),
        ("<body>x</body><body>y</body>", "id='1'", "upstream payload_misplaced"),
        ("<body xml:lang='de'>x</body><body xml:lang='de'>y</body>", "id='1'", "upstream payload_misplaced"),
        ("<body>x<b/></body>", "id='1'", "upstream payload_misplaced"),
        ("<body>x<b/></body>", "", "malformed payload_misplaced"),
        // None.
        ("", "id='1'", "other"), ("<subject>x</subject>", "id='1'", "other"),
        ("<body xmlns='urn:x'>x</body>", "id='1'", "other"),
        ("<html xmlns='http://jabber.org/protocol/xhtml-im'><body>x</body></html>", "id='1'", "other"),
        (forwarded, "id='1'", "other"), ("<sent xmlns='urn:xmpp:carbons:2'>\(forwarded)</sent>", "id='1'", "other"),
        ("<result xmlns='urn:xmpp:mam:2'>\(forwarded)</result>", "id='1'", "other"),
        ("<composing xmlns='http://jabber.org/protocol/chatstates'/>", "id='1'", "other"),
        ("<received xmlns='urn:xmpp:receipts' id='1'/>", "id='1'", "other"),
        ("<displayed xmlns='urn:xmpp:chat-markers:0' id='1'/>", "id='1'", "other"),
    ]

    @Test("the odd bodies of docs/protocol.md")
    func oddBodies() throws {
        for (children, attributes, wanted) in Self.odd {
            let decoded = try JSONPayloadTests.decode(children, attributes, Self.plain(.json, .body))
            #expect(word(decoded) == wanted, "\(children.prefix(100)) \(attributes.prefix(40))")
            guard case .message(let message) = decoded else { continue }
            #expect(message.quarantine != nil || message.dataForm == .json || children.contains("json"))
            let stranger = try JSONPayloadTests.decode(
                children,
                attributes,
                Self.plain(.json, .body),
                from: "mallory@example.org/x"
            )
            #expect(word(stranger) == "untrusted")
        }
    }

    @Test("a body becomes a JSON string of the same text, whatever it holds")
    func texts() throws {
        for text in [
            "", "x", "\"", "\\", "\",\"message_id\":\"x", "\\u0000", "a\tb\nc\rd", "</body>&amp;'<",
            "\u{7f}\u{85}\u{2028}",
            "é😀e\u{301}", "{\"a\":1}", "12", "null", "\u{feff}x", " x ",
        ] {
            let message = try Self.message("<body>\(escaped(text.utf8))</body>", Self.plain(.body))
            let data = try #require(message.part(message.data))
            #expect(message.quarantine == nil && message.text(message.messageID) == "s1", "\(text)")
            var scanner = JSONScanner()
            let kind = try data.withUnsafeBufferPointer { try scanner.scan($0) }
            let read = Array(data.dropFirst().dropLast()).withUnsafeBufferPointer { JSONLiteral.text(of: $0) }
            #expect(kind == .string && read == Array(text.utf8), "\(text)")
            #expect(message.text(message.registrationToken) == "sensor-7@example.org")
            #expect(message.text(message.category) == "c" && message.extra == nil && message.messageType == nil)
        }
    }

    @Test("with body_json a body is the JSON that it is, and a string where it is none or more than that")
    func jsonBodies() throws {
        for (text, wanted) in [
            (#"{"a": 1.10}"#, #"{"a": 1.10}"#), (" [1] ", "[1]"), ("12", "12"), ("null", "null"), (#""x""#, #""x""#),
            ("x", #""x""#), ("", #""""#), ("{", #""{""#), ("1,2", #""1,2""#), ("\u{feff}1", "\"\u{feff}1\""),
            (#"1,"message_id":"x""#, #""1,\"message_id\":\"x\"""#), (#"{}} "#, #""{}} ""#),
            (#"{"message_id":"x","from":"y"}"#, #"{"message_id":"x","from":"y"}"#),
        ] {
            let message = try Self.message("<body>\(escaped(text.utf8))</body>", Self.plain(.body, json: true))
            #expect(message.quarantine == nil && message.text(message.data) == wanted, "\(text)")
            #expect(message.text(message.messageID) == "s1")
        }
        let nul = try Self.message(#"<body>"\u0000"</body>"#, Self.plain(.body, json: true))
        #expect(nul.quarantine == nil && nul.dataForm == .raw)
    }

    @Test("of bodies in several languages the one without is the message, or the first; the others are in extra")
    func languages() throws {
        let message = try Self.message(
            "<body xml:lang='de'>Hallo \"Du\"</body><body>Hello</body><body xml:lang='fr'>Salut</body>",
            Self.plain(.body)
        )
        #expect(message.text(message.data) == #""Hello""#)
        #expect(message.text(message.extra) == #"{"body":{"de":"Hallo \"Du\"","fr":"Salut"}}"#)
        let first = try Self.message("<body xml:lang='de'>a</body><body xml:lang='fr'>b</body>", Self.plain(.body))
        #expect(first.text(first.data) == #""a""# && first.text(first.extra) == #"{"body":{"fr":"b"}}"#)
    }

    // MARK: Ids and categories

    @Test("a stanza-id counts only if our own server or account has made it, and once")
    func serverIDs() throws {
        func id(_ by: String...) throws -> String? {
            let ids = by.enumerated().map { "<stanza-id xmlns='urn:xmpp:sid:0' id='a\($0)' by='\($1)'/>" }.joined()
            let message = try Self.message("<body>x</body>" + ids, Self.plain(.body, id: .serverID))
            #expect((message.messageID == nil) == (message.kind == .malformed))
            return message.text(message.messageID) ?? message.quarantine?.rawValue
        }
        #expect(try id("worker@example.org") == "a0" && id("example.org") == "a0" && id("Worker@Example.org") == "a0")
        #expect(try id("room@muc.example.org", "worker@example.org") == "a1")
        for other in [
            "", "sensor-7@example.org", "evil.example.org", "example.org.evil", "worker@example.org/r", "worker@evil",
            "xexample.org",
        ] {
            #expect(try id(other) == "message_id_unusable", "\(other)")
        }
        #expect(try id("worker@example.org", "worker@example.org") == "identity_ambiguous")
        // The server's, not the device's.
        let own = try Self.message("<body>x</body>" + Self.origin, Self.plain(.body, id: .serverID))
        #expect(own.quarantine == .messageIDUnusable)
    }

    @Test("behind its sender, a stanza's id is another for each device")
    func senderIDs() throws {
        let rule = Self.plain(.body, id: .senderStanzaID)
        let one = try Self.message("<body>x</body>", rule)
        #expect(one.text(one.messageID) == "sensor-7@example.org s1")
        let other = try Self.message("<body>x</body>", rule, from: "sensor-8@example.org/x")
        #expect(one.messageKey != other.messageKey && other.quarantine == nil)
        let origin = try Self.message("<body>x</body>" + Self.origin, rule)
        #expect(origin.text(origin.messageID) == "sensor-7@example.org o1")
        #expect(try Self.message("<body>x</body>", rule, "").quarantine == .messageIDUnusable)
    }

    @Test("categories: subject, the sender's resource up to a slash, else the configured one")
    func categories() throws {
        func category(_ rule: PlainPayload.CategoryFrom, _ children: String = "", from: String) throws -> String? {
            let message = try Self.message("<body>x</body>" + children, Self.plain(.body, category: rule), from: from)
            return message.text(message.category)
        }
        let bare = "sensor-7@example.org"
        #expect(try category(.subject, "<subject>news</subject>", from: bare) == "news")
        #expect(try category(.subject, "<subject/>", from: bare) == "c")
        #expect(try category(.subject, "<x xmlns='urn:x'><subject>y</subject></x>", from: bare) == "c")
        #expect(try category(.resource, from: "\(bare)/com.example.App/4711") == "com.example.App")
        #expect(try category(.resource, from: "\(bare)/App") == "App")
        #expect(try category(.resource, from: bare) == "c")
        let long = "<subject>\(String(repeating: "s", count: 256))</subject>"
        let message = try Self.message("<body>x</body>" + long, Self.plain(.body, category: .subject))
        #expect(message.quarantine == .fieldTooLong && message.kind == .upstream)
    }

    // MARK: Answers

    @Test("receipts go to who asks for them, not to a room, not to a receipt, and never for an error")
    func receipts() throws {
        let asking = "<body>x</body><request xmlns='urn:xmpp:receipts'/>"
        let answered =
            "<message to=\"\(JSONPayloadTests.device)\"><received xmlns=\"urn:xmpp:receipts\" id=\"s1\"/></message>"
        for form in [PayloadForm.body, .stanza] {
            var plain = Self.plain(form)
            func ack(_ children: String, _ attributes: String = "id='s1'") throws -> String {
                JSONPayloadTests.ack(try Self.message(children, plain, attributes))
            }
            for rule in [PlainPayload.Ack.receipt, .json] {
                plain.ack = rule
                #expect(try ack(asking) == answered)
                #expect(try ack("<body>x</body>") == "")
                #expect(try ack(asking, "id='s1' type='groupchat'") == "")
                #expect(try ack(asking + "<received xmlns='urn:xmpp:receipts' id='1'/>") == "")
                #expect(try ack("<body>x</body><markable xmlns='urn:xmpp:chat-markers:0'/>") == "")
                #expect(word(try JSONPayloadTests.decode(asking, "id='s1' type='error'", plain)) == "error")
            }
            plain.ack = .none
            #expect(try ack(asking) == "")
            // Quarantined, and acked all the same.
            plain.ack = .receipt
            plain.category = nil
            let odd = try Self.message(asking, plain)
            #expect(odd.quarantine == .categoryUnusable && JSONPayloadTests.ack(odd) == answered)
        }
        let markup = try Self.message(asking.replacing("x</body>", with: "x<b/></body>"), Self.plain(.body))
        #expect(markup.quarantine == .payloadMisplaced && JSONPayloadTests.ack(markup) == answered)
    }

    @Test("in a list each form keeps its own answer")
    func answers() throws {
        var plain = Self.plain(.gcm, .json, .body)
        plain.ack = .json
        let members = #"{"message_id":"1","from":"t","category":"c"}"#
        let gcm = try Self.message("<gcm xmlns='google:mobile:data'>\(members)</gcm><body>x</body>", plain)
        #expect(JSONPayloadTests.ack(gcm).contains("<gcm "))
        let json = try Self.message(JSONPayloadTests.container(members) + "<body>x</body>", plain)
        #expect(JSONPayloadTests.ack(json).contains("<json ") && json.messageKey == gcm.messageKey)
        let body = try Self.message("<body>x</body><request xmlns='urn:xmpp:receipts'/>", plain)
        #expect(JSONPayloadTests.ack(body).contains("<received "))
        // The preferred one is read, wherever it stands.
        plain.forms = [.body, .gcm]
        let other = try Self.message("<gcm xmlns='google:mobile:data'>\(members)</gcm><body>x</body>", plain)
        #expect(other.text(other.data) == #""x""#)
        let without = try Self.message("<gcm xmlns='google:mobile:data'>\(members)</gcm>", plain)
        #expect(without.messageKey == gcm.messageKey)
    }

    @Test("in a room each occupant is a device of its own")
    func rooms() throws {
        let message = try Self.message("<body>x</body>", Self.plain(.body), "id='1' type='groupchat'")
        #expect(message.text(message.registrationToken) == "sensor-7@example.org/kitchen")
    }

    // MARK: Whole stanzas

    @Test("a stanza is canonical JSON without what servers change, beside its bytes")
    func stanzas() throws {
        let xml =
            "<message from='\(JSONPayloadTests.device)' id='s1' to='worker@example.org' type='chat' xml:lang='en'>"
            + "<encrypted xmlns='eu.siacs.conversations.axolotl'><header sid='27183'><key rid='1'>MwoK</key></header>"
            + "<payload>AAA=</payload></encrypted><body>a &lt;\"b\"&gt;</body>"
            + "<delay xmlns='urn:xmpp:delay' from='example.org' stamp='2026-11-22T08:41:16Z'/>"
            + "<stanza-id xmlns='urn:xmpp:sid:0' id='x' by='worker@example.org'/></message>"
        var codec = try JSONPayloadTests.codec(Self.plain(.stanza))
        guard case .message(let message) = codec.decode(try stanza(xml), receivedAt: 5, parsedAt: 7) else {
            throw Unexpected("no message")
        }
        #expect(
            message.text(message.data) == #"{"name":"message","xmlns":"jabber:client","#
                + #""attributes":{"id":"s1","type":"chat","xml:lang":"en"},"children":[{"name":"encrypted","#
                + #""xmlns":"eu.siacs.conversations.axolotl","children":[{"name":"header","attributes":{"sid":"27183"},"#
                + #""children":[{"name":"key","attributes":{"rid":"1"},"text":"MwoK"}]},{"name":"payload","text":"AAA="}]},"#
                + #"{"name":"body","text":"a <\"b\">"}]}"#
        )
        let extra = try #require(message.part(message.extra))
        let kept = try JSONSerialization.jsonObject(with: Data(extra)) as? [String: String]
        #expect(kept?["stanza"] == xml && kept?["urn:xmpp:delay"] == "2026-11-22T08:41:16.000000Z")
        #expect(message.part(message.stanza) == Array(xml.utf8) && message.quarantine == nil)
    }

    @Test("a stanza that comes again is the same, whatever its prefixes, quotes, resource, and what the server adds")
    func redeliveredStanzas() throws {
        let plain = Self.plain(.stanza)
        let first = try Self.message("<x xmlns='urn:x' b='1' a='2'><y/>t</x>", plain)
        let again = try Self.message(
            "<p:x xmlns:p='urn:x' a=\"2\" b=\"1\"><p:y></p:y>&#116;</p:x>"
                + "<stanza-id xmlns='urn:xmpp:sid:0' id='z' by='worker@example.org'/>"
                + "<archived xmlns='urn:xmpp:mam:tmp' id='z' by='worker@example.org'/>"
                + "<delay xmlns='urn:xmpp:delay' stamp='2026-11-22T08:41:16Z'/>",
            plain,
            "to='worker@example.org/r' id=\"s1\"",
            from: "sensor-7@example.org/elsewhere"
        )
        #expect(first.messageKey == again.messageKey && first.fingerprint == again.fingerprint)
        #expect(first.text(first.data) == again.text(again.data) && first.category != nil)
        for other in [
            "<x xmlns='urn:y' b='1' a='2'><y/>t</x>", "<x xmlns='urn:x' b='1' a='3'><y/>t</x>",
            "<x xmlns='urn:x' b='1' a='2'><y/>u</x>",
        ] {
            #expect(try Self.message(other, plain).fingerprint != first.fingerprint)
        }
        // What is missing is quarantined once.
        let lost = try Self.message("<x xmlns='urn:x'/>", plain, "")
        let lostAgain = try Self.message("<p:x xmlns:p='urn:x'/><delay xmlns='urn:xmpp:delay'/>", plain, "")
        #expect(lost.kind == .malformed && lost.part(lost.payload) == lostAgain.part(lostAgain.payload))
        #expect(lost.payload != nil)
    }

    @Test("what is inside a stanza has no say over its sender, id and category")
    func nestedStanzas() throws {
        let inner =
            "<message xmlns='jabber:client' from='evil@x' id='evil'>\(Self.origin)<subject>evil</subject>\(Self.json)</message>"
        for children in [
            "<forwarded xmlns='urn:xmpp:forward:0'>\(inner)</forwarded>",
            "<received xmlns='urn:xmpp:carbons:2'><forwarded xmlns='urn:xmpp:forward:0'>\(inner)</forwarded></received>",
            "<result xmlns='urn:xmpp:mam:2'><forwarded xmlns='urn:xmpp:forward:0'>\(inner)</forwarded></result>",
        ] {
            let message = try Self.message(children, Self.plain(.stanza, category: .subject))
            #expect(message.text(message.messageID) == "s1" && message.text(message.category) == "c")
            #expect(message.text(message.registrationToken) == "sensor-7@example.org")
            #expect(word(try JSONPayloadTests.decode(children, "id='1'", Self.plain(.event, .body))) == "other")
        }
    }

    @Test("namespaces that alternate can't make a stanza many times larger")
    func amplification() throws {
        let long = "urn:" + String(repeating: "x", count: 20_000)
        let inner = String(repeating: "<b:y><a:z/></b:y>", count: 1_000)
        let children = "<a:x xmlns:a='\(long)' xmlns:b='urn:b'>\(inner)</a:x>"
        let message = try Self.message(children, Self.plain(.stanza))
        #expect(message.quarantine == .fieldTooLong && message.kind == .upstream && message.data == nil)
        #expect(message.bytes.count < 10 * children.utf8.count)
        let attributes = (0..<60).map { "a:n\($0)=''" }.joined(separator: " ")
        let wide = try Self.message("<x xmlns='urn:x' xmlns:a='\(long)' \(attributes)/>", Self.plain(.stanza))
        #expect(wide.quarantine == .fieldTooLong && wide.bytes.count < 400_000)
    }

    @Test("byte by byte, torn anywhere or whole, by libxml2 or without it, each form gives the same")
    func torn() throws {
        let cases: [(PayloadForm, String)] = [
            (.body, "<body>é \"&amp;\"</body>" + Self.origin),
            (.stanza, "<x xmlns='urn:x' a='1'><p:y xmlns:p='urn:y' p:b='é'/>t</x>"),
            (.event, EventTests.event("<item id='i1'>\(JSONPayloadTests.container("[1]"))</item>")),
            (.event, EventTests.event("<item id='i1'><x xmlns='urn:x'/></item><item id='i2'/><retract id='i3'/>")),
        ]
        for (form, children) in cases {
            let plain = Self.plain(form)
            let wanted = try Decoded(JSONPayloadTests.decode(children, "id='s1'", plain))
            let xml = "<message from='\(JSONPayloadTests.device)' id='s1'>\(children)</message>"
            // A character reference is left to libxml2.
            for xml in [xml, xml.replacing("id='s1'", with: "id='s&#49;'")] {
                let bytes = Array(xml.utf8)
                let sizes = [1, 2, 3, 7, bytes.count] + (1..<bytes.count).map { -$0 }
                for size in sizes {
                    let pieces =
                        size > 0
                        ? stride(from: 0, to: bytes.count, by: size).map { bytes[$0..<min($0 + size, bytes.count)] }
                        : [bytes[..<(-size)], bytes[(-size)...]]
                    var codec = try JSONPayloadTests.codec(plain)
                    var found: [Decoded] = []
                    let framer = XMLFramer()
                    for piece in [Array(streamHeader.utf8)[...]] + pieces {
                        try Array(piece).withUnsafeBytes { piece in
                            try framer.feed(piece) { event in
                                if case .stanza(let stanza) = event {
                                    found.append(Decoded(codec.decode(stanza, receivedAt: 5, parsedAt: 7)))
                                }
                            }
                        }
                    }
                    #expect(found == [wanted], "\(form) in pieces of \(size)")
                }
            }
        }
    }
}

/// What is compared of a decoded stanza.
private struct Decoded: Equatable {
    var word: String
    var messages: [[String?]]

    init(_ decoded: DecodedStanza) {
        word = XMPPTests.word(decoded)
        let all: [IncomingMessage] =
            switch decoded {
            case .message(let message): [message]
            case .messages(let messages): messages
            default: []
            }
        messages = all.map { message in
            [
                "\(message.messageKey)", "\(message.fingerprint)", message.text(message.category),
                message.text(message.data),
            ]
                + [message.text(message.payload)]
        }
    }
}
