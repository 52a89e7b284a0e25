import Testing
import Vocabulary
import XMLWire

@testable import XMPP

/// Acks, as foreign parsers read them.
@Suite struct AckEncoderTests {
    private static let program = """
        import json, sys, xml.etree.ElementTree as tree
        for line in sys.stdin:
            wanted_id, wanted_to, ack = (bytes.fromhex(part) for part in line.rstrip('\\n').split(' '))
            text = ack.decode('utf-8')
            assert all(' ' <= c < '\\x7f' or c >= '\\xa0' for c in text), 'a control'
            inside = text[text.index('<gcm xmlns="google:mobile:data">') + 32:text.index('</gcm>')]
            assert not set(inside) & set("<>&'\\ufffe\\uffff"), 'markup'
            message = tree.fromstring(ack)
            assert message.tag == 'message' and len(message) == 1 and message.attrib == {'id': ''}
            gcm = message[0]
            assert gcm.tag == '{google:mobile:data}gcm' and len(gcm) == 0 and not gcm.attrib
            value = json.loads(gcm.text)
            literal = lambda body: json.loads(b'"' + body + b'"')
            right = {'to': literal(wanted_to), 'message_id': literal(wanted_id), 'message_type': 'ack'}
            print('yes' if value == right and list(value) == list(right) else 'no')
        """

    private func ack(id: String, from: String, dialect: Dialect = .ccs) throws -> [UInt8] {
        let json = #"{"message_id":"\#(id)","from":"\#(from)","category":"c"}"#
        guard case .message(let message) = try decode(rawEnvelope(Array(json.utf8)), dialect: dialect) else {
            throw Unexpected("no message")
        }
        return encode(message, dialect: dialect)
    }

    private func encode(_ message: IncomingMessage, dialect: Dialect = .ccs) -> [UInt8] {
        let encoder = AckEncoder(dialect: dialect)
        var output = Array("before".utf8)
        encoder.encode(message, into: &output)
        #expect(output.starts(with: Array("before".utf8)))
        #expect(output.count - 6 <= encoder.sizeLimit(of: message))
        #expect(output.count - 6 >= encoder.usualSize(of: message))
        return Array(output.dropFirst(6))
    }

    @Test("an ack has exactly the bytes of the protocol's form")
    func theFormIsTheProtocols() throws {
        let text = String(decoding: try ack(id: "000001", from: "tok:en"), as: UTF8.self)
        #expect(
            text
                == #"<message id=""><gcm xmlns="google:mobile:data">{"to":"tok:en","message_id":"000001","message_type":"ack"}</gcm></message>"#
        )
    }

    @Test("ids made to break out of the JSON or the XML stay inside")
    func idsThatTryToBreakOutDoNot() throws {
        let nasty = [
            "</gcm></message>", "]]>", "<!--", "&lt;", "&amp;quot;", "'", "\\\"", "\\\\", "\\/", "\\\\\\\"", "a'b\\\"c",
            "\\u003c/gcm>", "\\u0000", "\\ud800", "\\udfff\\ud800", "\\ud83d\\ude00", "\u{7f}", "\u{80}", "\u{202e}abc",
            "\u{fffe}", "\u{ffff}", "\u{10ffff}", "\u{2028}", "é", "e\u{301}", "😀", "\\n\\t\\r\\b\\f", "a b", "<&>'",
            "1234567<", "12345678<", "1234567é", "😀😀😀😀<", String(repeating: "é<", count: 1_000), "{\\\"to\\\":1}",
            "%3C", "<![CDATA[", "\u{feff}", "</stream:stream>",
        ]
        var lines: [String] = []
        for id in nasty {
            for from in ["t", id] {
                let bytes = try ack(id: id, from: from)
                lines.append([Array(id.utf8), Array(from.utf8), bytes].map(hex).joined(separator: " "))
            }
        }
        let verdicts = try python(AckEncoderTests.program, lines)
        #expect(verdicts.count == lines.count)
        for (line, verdict) in zip(lines, verdicts) { #expect(verdict == "yes", "\(line)") }
    }

    /// Every scalar that can stand raw in a JSON string, and every UTF-16 unit as an escape.
    ///
    /// Of the 272 blocks of scalars, the one that ends in surrogates is sent with the next.
    @Test("every character comes back from Python's XML and JSON parsers")
    func everyCharacterSurvivesForeignParsers() throws {
        var lines: [String] = []
        func add(_ id: String) throws {
            let bytes = try ack(id: id, from: "t")
            lines.append([Array(id.utf8), Array("t".utf8), bytes].map(hex).joined(separator: " "))
        }
        var id = ""
        for value in UInt32(0x20)...0x10ffff {
            guard let scalar = Unicode.Scalar(value), scalar != "\"", scalar != "\\" else { continue }
            id.unicodeScalars.append(scalar)
            if value % 4_096 == 4_095 {
                try add(id)
                id = ""
            }
        }
        for start in stride(from: 0, to: 0x10000, by: 4_096) {
            let units = (start..<start + 4_096).map { unit in
                let digits = String(unit, radix: 16)
                return "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            }
            try add(units.joined())
        }
        let verdicts = try python(AckEncoderTests.program, lines)
        #expect(verdicts.count == 271 + 16)
        #expect(verdicts.allSatisfy { $0 == "yes" })
    }

    /// An ack of six bytes for each that came once had a server with a stanza limit end the stream, again and again.
    @Test("an ack is hardly longer than the id and token in it")
    func anAckIsHardlyLongerThanWhatItEchoes() throws {
        let frame = try ack(id: "1", from: "t").count - 2
        for text in ["é", "木", "😀", "\u{a0}", "\u{fffd}", "\u{1ffff}", "\u{202e}", "plain"] {
            let id = String(repeating: text, count: 1_000)
            #expect(try ack(id: id, from: "t").count == frame + id.utf8.count + 1, "\(text)")
        }
        #expect(try ack(id: "\u{7f}\u{80}\u{9f}\u{fffe}\u{ffff}'", from: "t").count == frame + 6 * 6 + 1)
    }

    @Test("the size announced for an ack over the limit is exact")
    func theSizeOfALongAckIsExact() throws {
        var generator = SeededGenerator(state: 42)
        let scalars: [Unicode.Scalar] = ["a", "'", "<", "é", "\u{85}", "\u{ffff}", "木", "😀", "&", "\u{7f}"]
        let encoder = AckEncoder(dialect: .ccs)
        for count in [0, 1, 700, 5_000, 12_000] {
            var id = "x"
            for _ in 0..<count { id.unicodeScalars.append(scalars.randomElement(using: &generator) ?? "a") }
            let json = #"{"message_id":"\#(id)","from":"t","category":"c"}"#
            guard case .message(let message) = try decode(rawEnvelope(Array(json.utf8))) else {
                throw Unexpected("no message")
            }
            let size = encode(message).count
            if size > 4_096 { #expect(encoder.sizeLimit(of: message) == size) }
            #expect(message.answer.isSent == encoder.isAck(of: message, over: size - 1))
            #expect(!encoder.isAck(of: message, over: size))
        }
    }

    /// The own reader, as the emulator's and a replay's, gives back the id's text byte for byte.
    @Test("ServerAckReader reads the ids back from what the encoder wrote")
    func ourReaderGetsTheIDsBack() throws {
        for id in ["é", "\u{feff}木", "😀'<", "\\u00e9\\/\\n", "e\u{301}", "\u{fffe}\u{80}", "a\u{2028}b"] {
            let bytes = try ack(id: id, from: "t" + id)
            var reader = ServerAckReader()
            let read = try #require(reader.read(try stanza(String(decoding: bytes, as: UTF8.self))))
            let text = Array(id.utf8).withUnsafeBufferPointer { literal in
                [UInt8](unsafeUninitializedCapacity: literal.count + 1) { room, count in
                    count = room.baseAddress.map { JSONLiteral.unescape(literal, into: $0) } ?? 0
                }
            }
            #expect(Array(read.messageID.utf8) == text && Array(read.to.utf8) == Array("t".utf8) + text, "\(id)")
        }
    }

    @Test("a copy without a usable id is not acked")
    func malformedCopiesAreNotAcked() throws {
        for json in [#"{"message_id":"1"}"#, "[]", #"{"message_id":"1","from":"t","from":"t"}"#] {
            #expect(encode(try decodeMessage(json)).isEmpty)
        }
    }

    @Test("a quarantined copy is acked with its id as it came")
    func quarantinedCopiesAreAckedWithTheIDAsItCame() throws {
        let message = try decodeMessage(#"{"message_id":"a\uD800","from":"t","category":"c"}"#)
        #expect(String(decoding: encode(message), as: UTF8.self).contains(#""message_id":"a\uD800""#))
    }

    @Test("the ack to a standard server has the sender's address, a CCS's has none")
    func aStandardServersAckIsAddressed() throws {
        let sender = "o'<&>\"brien@gcm.googleapis.com/a\nb"
        var codec = UpstreamCodec(
            StreamSettings(
                senderID: "1",
                domain: "fcm.test",
                dialect: .xmpp,
                trustedFrom: [sender]
            )
        )
        let source = try envelope(
            #"{"message_id":"1","from":"t","category":"c"}"#,
            attributes: "from='\(escaped(sender.utf8))'"
        )
        guard case .message(let message) = codec.decode(source, receivedAt: 0, parsedAt: 0) else {
            throw Unexpected("untrusted: \(source.attribute("from", of: 0).map { source.string($0) } ?? "")")
        }
        let ack = try stanza(String(decoding: encode(message, dialect: .xmpp), as: UTF8.self))
        #expect(ack.attribute("to", of: 0).map { ack.string($0) } == sender)
        #expect(!String(decoding: encode(message, dialect: .ccs), as: UTF8.self).contains("brien"))
    }
}
