import Digests
import Testing
import Vocabulary
import XMLWire

@testable import XMPP

/// The odd cases of docs/protocol.md, and what the codec makes of a good message.
@Suite struct UpstreamCodecTests {
    private static let good = #""message_id":"1","from":"t","category":"c""#

    @Test("a good message: every field is found where it stands")
    func aMessageIsReadWhole() throws {
        let json =
            #"{"data":{"k": "v\n"},"time_to_live":86400,"from":"tok:en-_1","message_id":"0\u0030\u00e91","category":"com.example.app"}"#
        let stanza = try envelope(json, attributes: "from='devices@gcm.googleapis.com' type='normal'")
        guard case .message(let message) = try decode(stanza) else { throw Unexpected("no message") }
        #expect(message.kind == .upstream)
        #expect(message.quarantine == nil)
        #expect(message.text(message.messageID) == "00é1")
        #expect(message.text(message.registrationToken) == "tok:en-_1")
        #expect(message.text(message.category) == "com.example.app")
        #expect(message.text(message.data) == #"{"k": "v\n"}"#)
        #expect(message.dataForm == .json)
        #expect(message.text(message.extra) == #"{"time_to_live":86400}"#)
        #expect(message.messageType == nil)
        #expect(message.text(message.stanzaFrom) == "devices@gcm.googleapis.com")
        #expect(message.text(message.ackMessageID) == #"0\u0030\u00e91"#)
        #expect(message.text(message.ackTo) == "tok:en-_1")
        #expect(message.part(message.stanza) == stanza.raw)
        #expect(message.sender == 3 && message.receivedAt == 1_700_000_000_000_000 && message.parsedAt == 42)
    }

    @Test("what a standard server gives us back of our own is dropped; a CCS speaks for our account")
    func echoes() throws {
        let own = [
            "1234567890@fcm.googleapis.com", "1234567890@fcm.googleapis.com/resource",
            "1234567890@FCM.googleapis.com/x",
        ]
        for json in [
            #"{"message_type":"ack","message_id":"1","to":"t"}"#,
            #"{"message_type":"nack","error":"CONNECTION_DRAINING"}"#,
            #"{"message_type":"control","control_type":"CONNECTION_DRAINING"}"#,
        ] {
            for from in own {
                let echo = try envelope(json, attributes: "from='\(from)'")
                #expect(word(try decode(echo, dialect: .xmpp)) == "untrusted", "\(json) from \(from)")
            }
            let bare = try envelope(json, attributes: "from='\(own[0])'")
            #expect(word(try decode(bare, dialect: .ccs)) != "untrusted")
            let other = try envelope(json, attributes: "from='devices@gcm.googleapis.com/x'")
            #expect(word(try decode(other, dialect: .xmpp)) != "untrusted")
        }
        // A message of the server's own, on behalf of the account, is one.
        let message = try envelope(#"{"message_id":"1","from":"t","category":"c"}"#, attributes: "from='\(own[0])'")
        #expect(word(try decode(message, dialect: .xmpp)) == "upstream")
    }

    @Test("a receipt keeps its type and its full id")
    func aReceiptKeepsItsTypeAndFullID() throws {
        let message = try decodeMessage(
            #"{"message_type":"receipt","message_id":"dr2:39","from":"gcm.googleapis.com","category":"c","data":{}}"#
        )
        #expect(message.kind == .receipt && message.answer.isSent && message.quarantine == nil)
        #expect(message.text(message.messageType) == "receipt")
        #expect(message.text(message.messageID) == "dr2:39" && message.text(message.ackMessageID) == "dr2:39")
        // Its content is its own: the message that it is for, or an upstream message of the same id, is another one.
        let upstream = #"{"message_id":"dr2:39","from":"gcm.googleapis.com","category":"c","data":{}}"#
        #expect(try decodeMessage(upstream).fingerprint != message.fingerprint)
        #expect(try decodeMessage(upstream.replacing("dr2:", with: "")).messageKey != message.messageKey)
    }

    @Test(
        "ids that only look or sort alike are different ones: they are compared as bytes",
        arguments: IDScope.allCases
    )
    func idsAreComparedAsBytes(_ scope: IDScope) throws {
        let ids = [
            "\u{E9}", "e\u{301}", "E", "e", "e ", " e", "e\u{A0}", "e\u{200B}", "\u{FF45}", "\u{130}", "i\u{307}", "I",
            "\u{131}",
            "\u{DF}", "ss", "1", "01", "1.0", "\u{661}", "e\u{301}\u{323}", "e\u{323}\u{301}",
        ]
        var keys: Set<Digest128> = []
        for id in ids {
            let message = try decodeMessage(#"{"message_id":"\#(id)","from":"t","category":"c"}"#, scope: scope)
            // As bytes: to Swift, too, é is é however it is written.
            #expect(
                message.part(message.messageID) == Array(id.utf8)
                    && message.part(message.ackMessageID) == Array(id.utf8)
            )
            keys.insert(message.messageKey)
        }
        #expect(keys.count == ids.count)
        // The same holds for the tokens that devices are known by.
        let devices = try ids.map { try decodeMessage(#"{"message_id":"1","from":"\#($0)","category":"c"}"#).deviceKey }
        #expect(Set(devices).count == ids.count)
        // An id is the text that its bytes stand for, however JSON escapes them.
        let escaped = try decodeMessage(#"{"message_id":"\u00e9","from":"t","category":"c"}"#, scope: scope)
        let plain = try decodeMessage(#"{"message_id":"\#(ids[0])","from":"t","category":"c"}"#, scope: scope)
        #expect(escaped.messageKey == plain.messageKey)
    }

    /// The digests of docs/protocol.md (What identifies a message), computed by hand.
    @Test("key, device key and fingerprint are those of docs/protocol.md")
    func theDigestsAreTheDocumented() throws {
        func first16(_ bytes: [UInt8]) -> String { hex(Array(HashFunction.sha256.digest(of: bytes).prefix(16))) }
        func part(_ text: String?) -> [UInt8] {
            let count = text.map { UInt64($0.utf8.count) } ?? .max
            return (0..<8).map { UInt8(truncatingIfNeeded: count >> (56 - 8 * $0)) } + Array((text ?? "").utf8)
        }
        func plain(_ digest: Digest128) -> String { digest.description.filter { $0 != "-" } }
        let json = #"{"message_id":"m\u00e9","from":"t\u0031","category":"c","data":[1, 2]}"#
        let message = try decodeMessage(json)
        #expect(plain(message.messageKey) == first16(Array("1234567890\0mé".utf8)))
        #expect(plain(message.deviceKey) == first16(Array("t1".utf8)))
        #expect(plain(message.fingerprint) == first16(part("t1") + part("c") + part(nil) + part("[1, 2]")))
        let device = try decodeMessage(json, scope: .device)
        #expect(plain(device.messageKey) == first16(Array("1234567890\0t1\0mé".utf8)))
        #expect(device.fingerprint == message.fingerprint)
        let receipt = try decodeMessage(#"{"message_id":"m","from":"t","category":"c","message_type":"receipt"}"#)
        #expect(plain(receipt.fingerprint) == first16(part("t") + part("c") + part("receipt") + part(nil)))
    }

    @Test("contents that differ in one part have different fingerprints")
    func contentsThatDifferHaveDifferentFingerprints() throws {
        let contents = [
            "", #","data":null"#, #","data":"""#, #","data":{}"#, #","data":{ }"#, #","data":1"#, #","data":1.0"#,
            #","data":{"a":1}"#, #","message_type":"receipt""#,
        ]
        let prints = try contents.map { try decodeMessage("{\(UpstreamCodecTests.good)\($0)}").fingerprint }
        #expect(Set(prints).count == contents.count)
        // What is not part of the content does not count: members' order, `extra`, the spelling of a text.
        let same = try decodeMessage(#"{"x":1,"category":"\u0063","from":"t","message_type":null,"message_id":"1"}"#)
        #expect(same.fingerprint == prints[0])
    }

    @Test(
        "odd payloads go where docs/protocol.md says",
        arguments: [
            // message_id or from unusable: not acked.
            (#"{"from":"t","category":"c"}"#, "malformed message_id_unusable"),
            (#"{"message_id":"","from":"t","category":"c"}"#, "malformed message_id_unusable"),
            (#"{"message_id":1,"from":"t","category":"c"}"#, "malformed message_id_unusable"),
            (#"{"message_id":null,"from":"t","category":"c"}"#, "malformed message_id_unusable"),
            (#"{"message_id":["1"],"from":"t","category":"c"}"#, "malformed message_id_unusable"),
            (#"{"message_id":{"message_id":"1"},"from":"t","category":"c"}"#, "malformed message_id_unusable"),
            (#"{"message_id":"1","category":"c"}"#, "malformed from_unusable"),
            (#"{"message_id":"1","from":"","category":"c"}"#, "malformed from_unusable"),
            (#"{"message_id":"1","from":7,"category":"c"}"#, "malformed from_unusable"),
            (#"{"message_id":"1","from":true,"category":"c"}"#, "malformed from_unusable"),
            (#"{"message_id":1,"from":2}"#, "malformed message_id_unusable"),
            (#"{}"#, "malformed message_id_unusable"),
            (#"{"Message_ID":"1","from":"t","category":"c"}"#, "malformed message_id_unusable"),
            (#"{"message_id ":"1","from":"t","category":"c"}"#, "malformed message_id_unusable"),
            (#"{"a":{"message_id":"1","from":"t"}}"#, "malformed message_id_unusable"),
            (#"{"message_id":"1","message_type":"what"}"#, "malformed from_unusable"),
            // Duplicates of these two, in any spelling.
            (#"{"message_id":"1","message_id":"1","from":"t","category":"c"}"#, "malformed identity_ambiguous"),
            (#"{"message_id":"1","message_i\u0064":"2","from":"t","category":"c"}"#, "malformed identity_ambiguous"),
            (#"{"from":"t","\u0066rom":"t","message_id":"1","category":"c"}"#, "malformed identity_ambiguous"),
            (#"{"message_id":"1","from":"t","from":null,"category":"c"}"#, "malformed identity_ambiguous"),
            (#"{"message_id":1,"message_id":"1","from":"t"}"#, "malformed identity_ambiguous"),
            // Not one JSON object.
            (#"[]"#, "malformed payload_not_json"), (#""x""#, "malformed payload_not_json"),
            (#"null"#, "malformed payload_not_json"), (#" "#, "malformed payload_not_json"),
            (#"{"message_id":"1","from":"t","category":"c"} x"#, "malformed payload_not_json"),
            (#"x {"message_id":"1","from":"t","category":"c"}"#, "malformed payload_not_json"),
            (#"{"message_id":"1","from":"t","category":"c",}"#, "malformed payload_not_json"),
            (#"{"message_id":"1","from":"t","category":"c"}{}"#, "malformed payload_not_json"),
            ("\u{feff}" + #"{"message_id":"1","from":"t","category":"c"}"#, "malformed payload_not_json"),
            (#"{"message_id":"1","from":"t","category":"c","data":NaN}"#, "malformed payload_not_json"),
            // Other duplicates: acked.
            (#"{"message_id":"1","from":"t","category":"c","category":"c"}"#, "upstream duplicate_key"),
            (#"{"message_id":"1","from":"t","category":"c","data":1,"data":1}"#, "upstream duplicate_key"),
            (#"{"message_id":"1","from":"t","category":"c","x":1,"x":1}"#, "upstream duplicate_key"),
            (#"{"message_id":"1","from":"t","category":"c","x":1,"\u0078":1}"#, "upstream duplicate_key"),
            (#"{"message_id":"1","from":"t","category":"c","\ud800":1,"\uD800":1}"#, "upstream duplicate_key"),
            (
                #"{"message_id":"1","from":"t","category":"c","message_type":"ack","message_type":"x"}"#,
                "upstream duplicate_key"
            ),
            (
                #"{"message_id":"1","from":"t","category":"c","message_type":null,"message_type":"receipt"}"#,
                "upstream duplicate_key"
            ),
            // Not duplicates.
            (#"{"message_id":"1","from":"t","category":"c","é":1,"e\u0301":1}"#, "upstream"),
            (#"{"message_id":"1","from":"t","category":"c","\u0000":1,"\ud800":1,"\udc00":2}"#, "upstream"),
            (#"{"message_id":"1","from":"t","category":"c","data":{"a":1,"a":2,"from":"x","from":"y"}}"#, "upstream"),
            (#"{"message_id":"1","from":"t","category":"c","x":1,"X":1}"#, "upstream"),
            // category.
            (#"{"message_id":"1","from":"t"}"#, "upstream category_unusable"),
            (#"{"message_id":"1","from":"t","category":""}"#, "upstream category_unusable"),
            (#"{"message_id":"1","from":"t","category":null}"#, "upstream category_unusable"),
            (#"{"message_id":"1","from":"t","category":["c"]}"#, "upstream category_unusable"),
            // message_type.
            (#"{"message_id":"1","from":"t","category":"c","message_type":"what"}"#, "upstream message_type_unknown"),
            (#"{"message_id":"1","from":"t","category":"c","message_type":""}"#, "upstream message_type_unknown"),
            (#"{"message_id":"1","from":"t","category":"c","message_type":1}"#, "upstream message_type_unknown"),
            (#"{"message_id":"1","from":"t","category":"c","message_type":"Ack"}"#, "upstream message_type_unknown"),
            (#"{"message_id":"1","from":"t","category":"c","message_type":["ack"]}"#, "upstream message_type_unknown"),
            (#"{"message_id":"1","from":"t","category":"c","message_type":null}"#, "upstream"),
            // Texts that no column can hold.
            (#"{"message_id":"\u0000","from":"t","category":"c"}"#, "upstream text_unstorable"),
            (#"{"message_id":"a\ud800","from":"t","category":"c"}"#, "upstream text_unstorable"),
            (#"{"message_id":"1","from":"\udc00","category":"c"}"#, "upstream text_unstorable"),
            (#"{"message_id":"1","from":"t","category":"\u0000"}"#, "upstream text_unstorable"),
            (#"{"message_id":"\u0000","from":"t","category":"c","message_type":"receipt"}"#, "receipt text_unstorable"),
            (#"{"message_id":"\u0000","from":"t","x":1,"x":2}"#, "upstream text_unstorable"),
            // Signals, however broken: never acked.
            (#"{"message_type":"ack","message_id":"1","from":"t"}"#, "ack"), (#"{"message_type":"ack"}"#, "ack"),
            (#"{"message_type":"\u0061ck"}"#, "ack"), (#"{"message_type":"ack","message_id":1,"message_id":2}"#, "ack"),
            (#"{"message_type":"ack","message_type":"nack"}"#, "ack"),
            (#"{"message_type":"nack","message_id":"1","from":"t"}"#, "nack unknown"),
            (#"{"message_type":"nack","error":"BAD_ACK","message_id":"1"}"#, "nack BAD_ACK"),
            (#"{"message_type":"nack","error":"InvalidJson : INVALID_TTL : x"}"#, "nack unknown"),
            (#"{"message_type":"nack","error":"CONNECTION_DRAINING"}"#, "nack CONNECTION_DRAINING"),
            (#"{"message_type":"nack","error":7}"#, "nack unknown"),
            (#"{"message_type":"control","control_type":"CONNECTION_DRAINING"}"#, "control CONNECTION_DRAINING"),
            (#"{"message_type":"control","control_type":"OTHER"}"#, "control unknown"),
            (#"{"message_type":"control"}"#, "control unknown"),
            (
                #"{"message_type":"control","control_type":"CONNECTION\u005fDRAINING","a":1}"#,
                "control CONNECTION_DRAINING"
            ),
        ]
    )
    func oddPayloads(_ json: String, _ expected: String) throws {
        let kind = try decode(rawEnvelope(Array(json.utf8)))
        #expect(word(kind) == expected, "\(json)")
        guard case .message(let message) = kind else { return }
        let isAcked = message.answer.isSent
        #expect(isAcked == !expected.hasPrefix("malformed"))
        #expect((message.ackMessageID != nil) == isAcked && (message.ackTo != nil) == isAcked)
    }

    @Test("the limits of id, token and category count bytes of the unescaped text")
    func theLimitsAreInBytesOfTheText() throws {
        func reason(id: String = "1", from: String = "t", category: String = "c") throws -> QuarantineReason? {
            try decodeMessage(#"{"message_id":"\#(id)","from":"\#(from)","category":"\#(category)"}"#).quarantine
        }
        let limit = String(repeating: "é", count: 2_048)
        #expect(try reason(id: limit, from: limit) == nil)
        #expect(try reason(id: limit + "x") == .fieldTooLong)
        #expect(try reason(from: limit + "x") == .fieldTooLong)
        // Escapes count as what they stand for.
        #expect(try reason(id: String(repeating: "\\u00e9", count: 2_048)) == nil)
        #expect(try reason(id: String(repeating: "\\u00e9", count: 2_048) + "\\n") == .fieldTooLong)
        #expect(try reason(category: String(repeating: "c", count: 255)) == nil)
        #expect(try reason(category: String(repeating: "c", count: 256)) == .fieldTooLong)
        #expect(try reason(category: String(repeating: "\\u0063", count: 255)) == nil)
        #expect(try reason(category: String(repeating: "é", count: 128)) == .fieldTooLong)
    }

    @Test("data that jsonb would refuse is marked for data_raw")
    func dataGoesToTheColumnThatCanHoldIt() throws {
        func form(_ data: String) throws -> IncomingMessage.DataForm {
            let message = try decodeMessage("{\(UpstreamCodecTests.good),\"data\":\(data)}")
            #expect(message.quarantine == nil && message.text(message.data) == data)
            return message.dataForm
        }
        for data in ["null", "1", "\"x\"", "[]", "{\"a\":1,\"a\":2}", "1e131071", "\"\\ud83d\\ude00\"", "true"] {
            #expect(try form(data) == .json)
        }
        for data in [
            "\"\\u0000\"", "{\"a\":\"\\ud800\"}", "1e400000",
            String(repeating: "[", count: 600) + String(repeating: "]", count: 600),
        ] {
            #expect(try form(data) == .raw)
        }
        let absent = try decodeMessage("{\(UpstreamCodecTests.good)}")
        #expect(absent.dataForm == .absent && absent.data == nil && absent.extra == nil)
    }

    @Test("an id that no text column holds is left out of the row and still acked")
    func whatNoTextHoldsIsLeftOutButEchoed() throws {
        let message = try decodeMessage(#"{"message_id":"a\uD800","from":"\u0000","category":"c"}"#)
        #expect(message.messageID == nil && message.registrationToken == nil)
        #expect(message.text(message.ackMessageID) == #"a\uD800"# && message.text(message.ackTo) == #"\u0000"#)
        let other = try decodeMessage(#"{"message_id":"a\uD801","from":"\u0000","category":"c"}"#)
        #expect(other.messageKey != message.messageKey)
        // With keys per device, where the parts are cut matters.
        let first = try decodeMessage(#"{"message_id":"c","from":"a\u0000b","category":"c"}"#, scope: .device)
        let second = try decodeMessage(#"{"message_id":"b\u0000c","from":"a","category":"c"}"#, scope: .device)
        #expect(first.messageKey != second.messageKey)
    }

    @Test("extra holds the other members, verbatim and in their order")
    func extraHoldsTheOtherMembersVerbatim() throws {
        let message = try decodeMessage(
            #"{ "z" : [ 1 ,2] ,"\#u{1F600}\u0041":"\u0000", \#(UpstreamCodecTests.good), "a":null , "data" : 1}"#
        )
        #expect(message.text(message.extra) == #"{"z":[ 1 ,2],"\#u{1F600}\u0041":"\u0000","a":null}"#)
    }

    @Test("thousands of keys are compared in little more than linear time")
    func manyKeysAreComparedWithoutQuadraticTime() throws {
        let keys = (0..<20_000).map { "\"k\($0)\":0" }.joined(separator: ",")
        let unique = "{\(UpstreamCodecTests.good),\(keys)}"
        #expect(word(try decode(rawEnvelope(Array(unique.utf8)))) == "upstream")
        let repeated = "{\(UpstreamCodecTests.good),\(keys),\"k777\\u0037\":0}"
        #expect(word(try decode(rawEnvelope(Array(repeated.utf8)))) == "upstream duplicate_key")
    }

    @Test("a stanza without a payload has none: quarantine knows it by its bytes")
    func emptyPayloads() throws {
        func payload(_ children: String) throws -> String? {
            guard case .message(let message) = try decode(try stanza("<message id='1'>\(children)</message>")) else {
                throw Unexpected("no message")
            }
            #expect(message.quarantine == .payloadMisplaced)
            return message.payload.map { message.text($0) ?? "" }
        }
        let empty = "<gcm xmlns='google:mobile:data'/>"
        for children in [empty, empty + empty, "<gcm xmlns='google:mobile:data' a='1'></gcm>"] {
            #expect(try payload(children) == nil, "\(children)")
        }
        let full = [empty + "<gcm xmlns='google:mobile:data'>x</gcm>", "<gcm xmlns='google:mobile:data'><x/></gcm>"]
        for children in full {
            #expect(try payload(children) != nil, "\(children)")
        }
    }

    @Test(
        "each kind of stanza is told from the others",
        arguments: [
            ("<presence/>", "other"), ("<iq type='get' id='1'><ping xmlns='urn:xmpp:ping'/></iq>", "other"),
            ("<message/>", "other"), ("<message><body>x</body></message>", "other"),
            ("<message><gcm>{}</gcm></message>", "other"),
            ("<message><gcm xmlns='google:mobile:data2'>{}</gcm></message>", "other"),
            ("<message xmlns='jabber:server'><gcm xmlns='google:mobile:data'>GOOD</gcm></message>", "other"),
            (
                "<message><forwarded xmlns='urn:xmpp:forward:0'><message xmlns='jabber:client'><gcm xmlns='google:mobile:data'>GOOD</gcm></message></forwarded></message>",
                "other"
            ),
            ("<message><gcm xmlns='google:mobile:data'>GOOD</gcm></message>", "upstream"),
            ("<message><data:gcm xmlns:data='google:mobile:data'>GOOD</data:gcm></message>", "upstream"),
            ("<message><gcm xmlns='google:mobile:data'><![CDATA[GOOD]]></gcm></message>", "upstream"),
            (
                "<message><delay xmlns='urn:xmpp:delay'/><gcm xmlns='google:mobile:data'>GOOD</gcm><x/></message>",
                "upstream"
            ),
            ("<message><gcm xmlns='google:mobile:data'/></message>", "malformed payload_misplaced"),
            ("<message><gcm xmlns='google:mobile:data'></gcm></message>", "malformed payload_misplaced"),
            ("<message><gcm xmlns='google:mobile:data'>GOOD<x/></gcm></message>", "malformed payload_misplaced"),
            ("<message><gcm xmlns='google:mobile:data'><gcm>GOOD</gcm></gcm></message>", "malformed payload_misplaced"),
            (
                "<message><gcm xmlns='google:mobile:data'>GOOD</gcm><gcm xmlns='google:mobile:data'>GOOD</gcm></message>",
                "malformed payload_misplaced"
            ),
            (
                "<message><gcm xmlns='google:mobile:data'>GOOD</gcm><x/><gcm xmlns='google:mobile:data'/></message>",
                "malformed payload_misplaced"
            ),
            ("<message type='error'><gcm xmlns='google:mobile:data'>GOOD</gcm></message>", "error"),
            (
                "<message type='error'><gcm xmlns='google:mobile:data'>{\"message_type\":\"ack\"}</gcm></message>",
                "error"
            ),
            ("<message type='error' from='mallory@evil'/>", "error"),
            ("<message type='chat'><gcm xmlns='google:mobile:data'>GOOD</gcm></message>", "upstream"),
            ("<message from='mallory@evil'><gcm xmlns='google:mobile:data'>rubbish</gcm></message>", "untrusted"),
            (
                "<message from='mallory@evil'><gcm xmlns='google:mobile:data'>{\"message_type\":\"control\",\"control_type\":\"CONNECTION_DRAINING\"}</gcm></message>",
                "untrusted"
            ),
        ]
    )
    func stanzas(_ xml: String, _ expected: String) throws {
        let filled = xml.replacing("GOOD", with: "{\(UpstreamCodecTests.good)}")
        #expect(word(try decode(try stanza(filled))) == expected, "\(xml)")
    }

    @Test(
        "only trusted senders' payloads are read",
        arguments: [
            ("fcm.googleapis.com", true), ("FCM.GoogleAPIs.com", true), ("fcm.googleapis.com.", true),
            ("1234567890@fcm.googleapis.com", true), ("devices@gcm.googleapis.com", true),
            ("DEVICES@GCM.googleapis.com", true), ("devices@gcm.googleapis.com/any", true), ("", false), ("@", false),
            ("/", false), ("@fcm.googleapis.com", false), ("fcm.googleapis.com/", false),
            ("fcm.googleapis.com/x", false),
            ("x@fcm.googleapis.com", false), ("1234567890@fcm.googleapis.com/resource", false),
            ("1234567890@fcm.googleapis.com/other", false), ("x.fcm.googleapis.com", false), ("googleapis.com", false),
            ("fcm.googleapis.com.evil", false), ("evilfcm.googleapis.com", false), ("gcm.googleapis.com", false),
            ("evil/devices@gcm.googleapis.com", false), ("evil@x/fcm.googleapis.com", false),
            ("devices@gcm.googleapis.com@evil", false), ("devices@evil", false), (" fcm.googleapis.com", false),
            ("fcm.googleapis.com ", false), ("ｆcm.googleapis.com", false), ("fcm.googleapis.com..", false),
            ("mallory@fcm.googleapis.com/devices@gcm.googleapis.com", false),
            ("devices@gcm.googleapis.com.evil", false),
        ]
    )
    func onlyTheTrustedMaySpeak(_ from: String, _ trusted: Bool) throws {
        let stanza = try envelope("{\(UpstreamCodecTests.good)}", attributes: "from='\(from)'")
        #expect(word(try decode(stanza)) == (trusted ? "upstream" : "untrusted"), "\(from)")
    }

    @Test("a stanza error is read by its condition, its text is not")
    func aStanzaErrorIsReadAndItsTextIsNot() throws {
        let token = String(repeating: "APA91bH", count: 20)
        let xml = """
            <message type='error' id='3'><gcm xmlns='google:mobile:data'>{"random":"text"}</gcm>\
            <error code='406' type='modify'><not-acceptable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>\
            <text xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'>for \(token) &#10;Received acks é</text></error></message>
            """
        guard case .error(let error) = try decode(try stanza(xml)) else { throw Unexpected("no error") }
        #expect(error.condition == .notAcceptable)
        #expect(!"\(error)".contains("APA91bH") && !"\(error)".contains("Received"))
    }
}
