import CCSEmulator
import Testing

@Suite("ClientAckReader: only a strict ack is an ack")
struct ClientAckReaderTests {
    private func read(_ text: String) -> (ClientAckReader.Reading, id: [UInt8], to: [UInt8]) {
        var reader = ClientAckReader()
        let reading = Array(text.utf8).withUnsafeBufferPointer { reader.read($0) }
        guard reading == .ack else { return (reading, [], []) }
        return reader.withFields { (reading, Array($0), Array($1)) }
    }

    @Test(
        "an ack in any order and spacing",
        arguments: [
            #"{"to":"T","message_id":"m","message_type":"ack"}"#,
            " {\r\n\t\"message_type\" : \"ack\" , \"message_id\":\"m\",\"to\":\"T\" } ",
            #"{"\u0074o":"\u0054","message_id":"\u006D","message_type":"ac\u006b"}"#,
        ]
    )
    func accepts(text: String) {
        let (reading, id, to) = read(text)
        #expect(reading == .ack)
        #expect(id == Array("m".utf8))
        #expect(to == Array("T".utf8))
    }

    @Test("escapes, pairs and lone surrogates come out as bytes")
    func unescapes() {
        let (reading, id, to) = read(
            #"{"to":"\"\\\/\b\f\n\r\t\u00e9\u20ac","message_id":"\ud83d\ude9a\ud800x\udfff\ud800\u0041\u0000","message_type":"ack"}"#
        )
        #expect(reading == .ack)
        #expect(to == Array("\"\\/\u{8}\u{c}\n\r\t\u{e9}\u{20ac}".utf8))
        #expect(id == Array("\u{1f69a}".utf8) + [0xED, 0xA0, 0x80, 0x78, 0xED, 0xBF, 0xBF, 0xED, 0xA0, 0x80, 0x41, 0])
    }

    @Test(
        "everything else is refused with its reason",
        arguments: [
            ("", ClientAckReader.Problem.notAnObjectOfStrings),
            ("ack", .notAnObjectOfStrings),
            ("{}", .notAnObjectOfStrings),
            ("\u{feff}" + #"{"to":"T","message_id":"m","message_type":"ack"}"#, .notAnObjectOfStrings),
            (#"{"to":"T","message_id":"m","message_type":"ack"} x"#, .notAnObjectOfStrings),
            (#"{"to":"T","message_id":"m","message_type":"ack",}"#, .notAnObjectOfStrings),
            (#"{"to":"T","message_id":"m","message_type":"ack""#, .notAnObjectOfStrings),
            (#"{"to":"T","message_id":7,"message_type":"ack"}"#, .notAnObjectOfStrings),
            (#"{"to":"T" "message_id":"m"}"#, .notAnObjectOfStrings),
            (#"{"to":"T","message_id":"m"}"#, .missingMember),
            (#"{"message_id":"m","message_type":"ack"}"#, .missingMember),
            (#"{"to":"T","message_id":"m","message_type":"nack"}"#, .otherType),
            (#"{"to":"T","message_id":"m","message_type":"ack","error":"x"}"#, .unknownMember),
            (#"{"to":"T","to":"T","message_id":"m","message_type":"ack"}"#, .duplicateMember),
            (#"{"to":"\x","message_id":"m","message_type":"ack"}"#, .badString),
            (#"{"to":"\u12g4","message_id":"m","message_type":"ack"}"#, .badString),
            (#"{"to":"\u12"#, .badString),
            ("{\"to\":\"a\u{1}\",\"message_id\":\"m\",\"message_type\":\"ack\"}", .badString),
            (#"{"to":"abc"#, .badString),
        ]
    )
    func refuses(text: String, problem: ClientAckReader.Problem) {
        #expect(read(text).0 == .malformed(problem))
    }

    @Test("a text cut off anywhere is refused")
    func cutOff() {
        let text = #"{"to":"T\u00e9","message_id":"\ud83d\ude9a","message_type":"ack"}"#
        for length in 0..<text.utf8.count {
            #expect(read(String(decoding: Array(text.utf8).prefix(length), as: UTF8.self)).0 != .ack)
        }
    }
}
