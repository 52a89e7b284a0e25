import Testing
import UpstreamKit
import Vocabulary
import XMLWire
import XMPP

@testable import Replaying

@Suite("Replays: what is sent and what is imported")
struct ReplayedMessageTests {
    private static let sender = "1234567890"

    private static func codec(_ scope: IDScope = .sender) -> UpstreamCodec {
        var settings = StreamSettings(senderID: sender, domain: "d.test")
        settings.idScope = scope
        return UpstreamCodec(settings)
    }

    /// Messages with everything that makes trouble in JSON, in XML, or in a line.
    static let payloads = [
        #"{"message_id":"m-1","from":"t","category":"c","data":{"a":1}}"#,
        #"{"message_id":"m\u0022\\\/é😀<&>'","from":"t:<x>","category":"c.d","data":{"a":"\u0000 \ud800 1e999"}}"#,
        #"{"from":"t","data":null,"category":"c","message_id":"x","time_to_live":86400,"x\"y":[1, 2]}"#,
        "{\"message_id\":\"n\",\"from\":\"t\",\"category\":\"c\",\"data\":{\n\t\"a\" : [ 1,\r\n 2 ] },\n\"e\": {\n}}",
        #"{"message_id":"dr2:1","from":"t","category":"c","message_type":"receipt","data":{"s":"]]>"}}"#,
        #"{"message_id":"z","from":"t","category":"c"}"#,
        "{\"message_id\":\"u\u{7F}\\u0001\",\"from\":\"t\\t\",\"category\":\"c\",\"data\":\"\u{2028}\"}",
    ]

    private static func decode(_ stanza: [UInt8], _ scope: IDScope = .sender) throws -> IncomingMessage {
        let framer = XMLFramer()
        var found: IncomingMessage?
        var codec = codec(scope)
        let header = Array("<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>".utf8)
        try (header + stanza).withUnsafeBytes { bytes in
            try framer.feed(bytes) { event in
                guard case .stanza(let stanza) = event,
                    case .message(let message) = codec.decode(stanza, receivedAt: 7, parsedAt: 0)
                else { return }
                found = message
            }
        }
        return try #require(found)
    }

    private static func original(_ payload: String, _ scope: IDScope = .sender) throws -> IncomingMessage {
        let text = payload.unicodeScalars.map { scalar in
            "<&>\r".unicodeScalars.contains(scalar) ? "&#\(scalar.value);" : String(scalar)
        }
        let stanza = "<message><gcm xmlns='google:mobile:data'>\(text.joined())</gcm></message>"
        return try decode(Array(stanza.utf8), scope)
    }

    private static func stored(_ message: IncomingMessage) throws -> UpstreamMessage {
        func bytes(_ span: ByteSpan?) -> [UInt8]? { span.map { Array(message.bytes[$0.range]) } }
        func text(_ span: ByteSpan?) -> String? { bytes(span).map { String(decoding: $0, as: UTF8.self) } }
        return UpstreamMessage(
            messageKey: MessageKey(message.messageKey),
            messageID: try #require(text(message.messageID)),
            senderID: sender,
            category: try #require(text(message.category)),
            registrationToken: RegistrationToken(try #require(text(message.registrationToken))),
            deviceKey: DeviceKey(message.deviceKey),
            data: bytes(message.data),
            extra: bytes(message.extra),
            messageType: text(message.messageType),
            receivedAtMicroseconds: message.receivedAt
        )
    }

    @Test("a replayed stanza is the same message to another worker", arguments: payloads)
    func stanza(_ payload: String) throws {
        let before = try Self.original(payload)
        let stored = try Self.stored(before)
        let again = try Self.decode(ReplayStanza.stanza(stored, to: "1@d.test", id: "r<0>"))
        #expect(again.quarantine == nil)
        #expect(again.messageKey == before.messageKey && again.fingerprint == before.fingerprint)
        #expect(again.deviceKey == before.deviceKey && again.dataForm == before.dataForm)
        let second = try Self.stored(again)
        #expect(second.data == stored.data && second.extra == stored.extra)
    }

    /// A line as `messages export --with-tokens` writes it.
    private static func line(_ message: UpstreamMessage, _ incoming: IncomingMessage) -> [UInt8] {
        func quote(_ text: some Collection<UInt8>) -> [UInt8] {
            var out: [UInt8] = [UInt8(ascii: "\"")]
            for byte in text {
                switch byte {
                case UInt8(ascii: "\""), UInt8(ascii: "\\"): out += [UInt8(ascii: "\\"), byte]
                case 0..<0x20: out += "\\u00\(byte < 16 ? "0" : "")\(String(byte, radix: 16))".utf8
                default: out.append(byte)
                }
            }
            return out + [UInt8(ascii: "\"")]
        }
        var line = Array(
            "{\"message_key\":\"\(message.messageKey)\",\"received_at\":\"2026-01-31T12:00:00.000007Z\"".utf8
        )
        func add(_ name: String, _ value: [UInt8]) { line += ",\"\(name)\":".utf8 + value }
        add("sender_id", quote(message.senderID.utf8))
        add("message_id", quote(message.messageID.utf8))
        add("registration_token", quote(message.registrationToken.rawValue.utf8))
        add("category", quote(message.category.utf8))
        if let type = message.messageType { add("message_type", quote(type.utf8)) }
        if let data = message.data { add(incoming.dataForm == .raw ? "data_raw" : "data_verbatim", quote(data)) }
        if let extra = message.extra { add("extra_verbatim", quote(extra)) }
        add("stanza_from", quote("devices@gcm.googleapis.com".utf8))
        add("fingerprint", quote("\(MessageKey(incoming.fingerprint))".utf8))
        return line + [UInt8(ascii: "}")]
    }

    @Test("a line becomes the message that was exported", arguments: payloads, [IDScope.sender, .device])
    func lines(_ payload: String, _ scope: IDScope) throws {
        let before = try Self.original(payload, scope)
        let stored = try Self.stored(before)
        var reader = ImportReader(now: Timestamp(microseconds: 0))
        let again = try Self.line(stored, before).withUnsafeBufferPointer { try reader.read($0) }
        #expect(again.messageKey == before.messageKey && again.fingerprint == before.fingerprint)
        #expect(again.receivedAt == 1_769_860_800_000_007)
        let second = try Self.stored(again)
        #expect(second.data == stored.data && second.extra == stored.extra)
        #expect(second.messageID == stored.messageID && reader.senders == [Self.sender])
        #expect(
            try String(decoding: again.bytes[#require(again.stanzaFrom).range], as: UTF8.self).hasPrefix("devices@")
        )
    }

    @Test("a member that is null is no other than one that is left out, as tools write what is absent")
    func nulls() throws {
        func data(_ members: String) throws -> [UInt8]? {
            var reader = ImportReader(now: Timestamp(microseconds: 0))
            let line = #"{"sender_id":"1","message_id":"m","registration_token":"t","category":"c",\#(members)}"#
            return try Self.stored(Array(line.utf8).withUnsafeBufferPointer { try reader.read($0) }).data
        }
        let raw = #""data_raw":"{\"a\":1e200000}""#
        #expect(try data(#""data_verbatim":null,\#(raw),"extra":null,"extra_verbatim":null"#) == data(raw))
        #expect(try data(raw) == Array(#"{"a":1e200000}"#.utf8))
    }

    @Test(
        "what is not as it must be is refused, and the reason names no content",
        arguments: [
            "", "[]", "{", #"{"a":1,"a":2}"#, #"{"sender_id":"1","message_id":"SECRET","category":"c"}"#,
            #"{"message_id":"SECRET","registration_token":"SECRET","category":"c"}"#,
            #"{"sender_id":"1","message_id":7,"registration_token":"SECRET","category":"c"}"#,
            #"{"sender_id":"1","message_id":"SECRET","registration_token":"SECRET","category":""}"#,
            #"{"sender_id":"1","message_id":"SECRET","registration_token":"SECRET","category":"c","received_at":"SECRET"}"#,
            #"{"sender_id":"1","message_id":"m","registration_token":"t","category":"c","message_type":"ack"}"#,
            #"{"sender_id":"1","message_id":"m","registration_token":"t","category":"c","data_raw":"{\"SECRET\":"}"#,
            #"{"sender_id":"1","message_id":"m","registration_token":"t","category":"c","extra":[]}"#,
            #"{"sender_id":"1","message_id":"m","registration_token":"t","category":"c","message_key":"SECRET"}"#,
            #"{"sender_id":"1","message_id":"m","registration_token":"t","category":"c","message_key":"00000000-0000-0000-0000-000000000000"}"#,
            #"{"sender_id":"1","message_id":"m","registration_token":"t","category":"c","fingerprint":"00000000-0000-0000-0000-000000000000"}"#,
        ]
    )
    func refusals(_ line: String) {
        var reader = ImportReader(now: Timestamp(microseconds: 0))
        #expect {
            _ = try Array(line.utf8).withUnsafeBufferPointer { try reader.read($0) }
        } throws: { error in
            guard let refusal = error as? ImportReader.Refusal else { return false }
            return !refusal.message.isEmpty && !refusal.message.contains("SECRET")
        }
    }

    @Test(
        "a year that has no partition is the line's fault, and said so",
        arguments: [
            "1970-01-01T00:00:00Z", "1999-12-31T23:59:59.999999Z", "2101-01-01T00:00:00Z", "9999-12-31T00:00:00Z",
        ]
    )
    func years(_ time: String) throws {
        var reader = ImportReader(now: Timestamp(microseconds: 0))
        func line(_ time: String) -> [UInt8] {
            Array(
                #"{"sender_id":"1","message_id":"m","registration_token":"t","category":"c","received_at":"\#(time)"}"#
                    .utf8
            )
        }
        #expect {
            _ = try line(time).withUnsafeBufferPointer { try reader.read($0) }
        } throws: { error in
            (error as? ImportReader.Refusal)?.message == "received_at is not between the years 2000 and 2100"
        }
        for kept in ["2000-01-01T00:00:00Z", "2100-12-31T23:59:59.999999Z"] {
            _ = try line(kept).withUnsafeBufferPointer { try reader.read($0) }
        }
    }

    @Test("lines are the same however the reads are split")
    func tearing() {
        let text = Array("one\r\n\ntwo\nthree".utf8)
        for first in 0...text.count {
            for second in first...text.count {
                var splitter = LineSplitter(limit: 100)
                var lines = splitter.add(text[..<first])
                lines += splitter.add(text[first..<second])
                lines += splitter.add(text[second...])
                lines += splitter.finish()
                #expect(lines.map { String(decoding: $0.bytes, as: UTF8.self) } == ["one", "", "two", "three"])
            }
        }
    }

    @Test("a line over the limit is dropped, and the next one is complete")
    func longLines() {
        var splitter = LineSplitter(limit: 4)
        let lines = splitter.add(Array("123456789\nok\n".utf8)[...]) + splitter.finish()
        #expect(lines.map(\.bytes) == [[], Array("ok".utf8)] && lines.map(\.isTooLong) == [true, false])
    }
}
