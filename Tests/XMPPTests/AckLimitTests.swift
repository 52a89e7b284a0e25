import Testing
import Vocabulary

@testable import XMPP

/// Acks that would be larger than a server takes, and how a stanza that comes again is known.
@Suite struct AckLimitTests {
    private func decode(id: String, from: String = "t", limit: Int?) throws -> IncomingMessage {
        var codec = try makeCodec()
        var limits = ServerLimits()
        limits.stanza = limit
        codec.bound(to: try #require(JID("1234567890@fcm.googleapis.com/resource")), limits)
        let json = #"{"message_id":"\#(id)","from":"\#(from)","category":"c"}"#
        guard case .message(let message) = codec.decode(rawEnvelope(Array(json.utf8)), receivedAt: 0, parsedAt: 0)
        else {
            throw Unexpected("no message")
        }
        return message
    }

    @Test("an ack over the ceiling is not written; the copy goes to quarantine, and one byte less is acked")
    func ceiling() throws {
        for (limit, ceiling) in [(nil, 65_536), (262_144, 65_536), (12_000, 12_000)] as [(Int?, Int)] {
            let frame = 110
            let short = String(repeating: "a", count: ceiling - frame)
            var length = short.utf8.count
            let encoder = AckEncoder(dialect: .ccs)
            // To the byte: the frame's length is the encoder's.
            var output: [UInt8] = []
            encoder.encode(try decode(id: short, limit: limit), into: &output)
            length += ceiling - output.count
            let fits = try decode(id: String(repeating: "a", count: length), limit: limit)
            #expect(fits.answer.isSent)
            let over = try decode(id: String(repeating: "a", count: length + 1), limit: limit)
            #expect(!over.answer.isSent && over.answer == .tooLarge && over.kind == .malformed)
            #expect(over.quarantine == .fieldTooLong)
            #expect(encoder.sizeLimit(of: over) == 0)
            // By the bytes of the ack, not by those of the id.
            #expect(try decode(id: String(repeating: "'", count: length / 5), limit: limit).answer == .tooLarge)
            #expect(try decode(id: String(repeating: "é", count: length / 2), limit: limit).answer.isSent)
        }
    }

    @Test(
        "the limit that a server announces is read from its features (XEP-0478)",
        arguments: [
            ("<max-bytes>262144</max-bytes>", 262_144), ("<idle-seconds>60</idle-seconds>", nil),
            ("<max-bytes>20000</max-bytes><idle-seconds>60</idle-seconds>", 20_000),
            // No server may take less than 10,000 bytes (RFC 6120 section 13.12).
            ("<max-bytes>0</max-bytes>", 10_000), ("<max-bytes>-1</max-bytes>", nil), ("<max-bytes/>", nil),
            ("<max-bytes>99999999999999999999999</max-bytes>", nil), ("<max-bytes> 1 </max-bytes>", nil),
            ("<max-bytes>٤</max-bytes>", nil),
        ] as [(String, Int?)]
    )
    func announced(_ xml: String, _ expected: Int?) throws {
        var negotiation = makeNegotiation { $0 = StreamSettings(senderID: "1", domain: "example.org") }
        _ = negotiation.transportReady(encrypted: true)
        _ = negotiation.opened(try header(streamHeader))
        let sasl = "<mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><mechanism>PLAIN</mechanism></mechanisms>"
        let limits = "<limits xmlns='urn:xmpp:stream-limits:0'>\(xml)</limits>"
        let bind = "<bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>"
        _ = negotiation.stanza(try stanza("<stream:features>\(sasl)</stream:features>"), trailingBytes: 0)
        _ = negotiation.stanza(try stanza("<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>"), trailingBytes: 0)
        _ = negotiation.opened(try header(streamHeader))
        _ = negotiation.stanza(
            try stanza("<stream:features>\(bind)</bind>\(limits)</stream:features>"),
            trailingBytes: 0
        )
        let result = "<iq type='result' id='r4nd-bind'>\(bind)<jid>1@example.org/r</jid></bind></iq>"
        guard case .bound(let stream) = negotiation.stanza(try stanza(result), trailingBytes: 0) else {
            throw Unexpected("not bound")
        }
        #expect(stream.limits.stanza == expected)
    }

    @Test(
        "what a server adds or writes differently when it sends a stanza again does not make it another one",
        arguments: [
            ("[]", "[]", ""), ("{&quot;message_id&quot;:1}", "<![CDATA[{\"message_id\":1}]]>", ""), ("", "", ""),
            ("<b a='1' c='2'>x</b>", "<b  c=\"2\" a='1' >x</b >", ""),
            ("{}", "{}", "<gcm xmlns='google:mobile:data'>1</gcm>"),
        ]
    )
    func recognised(_ payload: String, _ again: String, _ more: String) throws {
        let first =
            "<message from='devices@gcm.googleapis.com/a' id='1'><gcm xmlns='google:mobile:data'>\(payload)</gcm>"
            + "\(more)</message>"
        let second =
            "<message id=\"2\" xml:lang='en' to='me@x' from=\"devices@gcm.googleapis.com/b\">"
            + "<g:gcm xmlns:g=\"google:mobile:data\">"
            + again.replacing("<b ", with: "<g:b ").replacing("</b ", with: "</g:b ") + "</g:gcm>" + more
            + "<delay xmlns='urn:xmpp:delay' stamp='2026-01-01T00:00:00Z'>Offline</delay>"
            + "<stanza-id xmlns='urn:xmpp:sid:0' id='7' by='x'/></message>"
        let (one, two) = (try message(first), try message(second))
        #expect(one.quarantine != nil && one.quarantine == two.quarantine)
        #expect(one.part(one.payload) == two.part(two.payload))
        // Verbatim all the same.
        #expect(one.text(one.stanza) == first && two.text(two.stanza) == second)
    }

    @Test("payloads that differ are different stanzas")
    func different() throws {
        var seen: Set<[UInt8]> = []
        let payloads = [
            "", "1", "[]", "[ ]", "<b/>", "<c/>", "<b a='1'/>", "<b a='2'/>", "<b>a</b>", "<b><b/></b>", "x<b/>",
        ]
        for payload in payloads {
            let message = try message("<message><gcm xmlns='google:mobile:data'>\(payload)</gcm></message>")
            #expect(seen.insert(message.part(message.payload) ?? []).inserted, "\(payload)")
        }
    }

    /// Long names of namespaces apply to many attributes at once.
    @Test("what a stanza's digest is computed over is no longer than the stanza")
    func theFormByWhichAStanzaIsKnownIsNoLongerThanTheStanza() throws {
        let namespace = String(repeating: "n", count: 20_000)
        let attributes = (0..<40).map { "p:a\($0)='v'" }.joined(separator: " ")
        let element = "<p:e \(attributes)/>"
        let message = try message(
            "<message><gcm xmlns='google:mobile:data' xmlns:p='\(namespace)'>"
                + String(repeating: element, count: 20) + "</gcm></message>"
        )
        #expect(message.quarantine == .payloadMisplaced)
        #expect(try #require(message.payload).count <= message.stanza.count)
    }

    private func message(_ xml: String) throws -> IncomingMessage {
        guard case .message(let message) = try XMPPTests.decode(try stanza(xml)) else { throw Unexpected("no message") }
        return message
    }
}
