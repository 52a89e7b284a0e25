import Testing
import XMLWire

@testable import Replaying

@Suite("Replays: the stanza around a payload")
struct ReplayStanzaTests {
    /// Writes a stanza and reads it back: its payload, and its attributes by name.
    private func read(_ json: [UInt8], to: String?, id: String?) throws -> (text: String, attributes: [String: String])
    {
        var limits = StreamLimits()
        limits.stanzaBytes = 1 << 20
        let framer = XMLFramer(limits: limits)
        let header = "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>"
        var found: [(text: String, attributes: [String: String])] = []
        let bytes = Array(header.utf8) + ReplayStanza.stanza(around: json, to: to, id: id)
        try bytes.withUnsafeBytes { bytes in
            try framer.feed(bytes) { event in
                guard case .stanza(let stanza) = event else { return }
                var attributes: [String: String] = [:]
                for attribute in stanza.attributes {
                    attributes[stanza.string(attribute.name)] = stanza.string(attribute.value)
                }
                found.append((stanza.string(stanza.elements[1].text), attributes))
            }
        }
        #expect(found.count == 1 && framer.position == .betweenStanzas)
        return try #require(found.first)
    }

    static let values = [
        "", "plain", "<>&'\"", "]]>", "</gcm></message><message>", "a\tb\nc\rd\r\n", "é€😀\u{7F}\u{85}\u{FFFD}",
        "&amp;lt;", "' to='x", "\u{202E}abc", String(repeating: "<\"&'>", count: 1000), " leading and trailing ",
        "{\"a\":\"\\u0000\"}",
    ]

    @Test("any text comes back as it went in, in text and in an attribute", arguments: values)
    func roundTrip(value: String) throws {
        let stanza = try read(Array(value.utf8), to: value, id: nil)
        #expect(Array(stanza.text.utf8) == Array(value.utf8))
        #expect(Array((stanza.attributes["to"] ?? "none").utf8) == Array(value.utf8))
        #expect(stanza.attributes.keys.sorted() == ["to", "type"])
    }

    @Test("what is not UTF-8 is replaced")
    func notUTF8() throws {
        let stanza = try read([0x41, 0xC0, 0xAF, 0x42], to: nil, id: "\u{0}x")
        #expect(stanza.text == "A\u{FFFD}\u{FFFD}B" && stanza.attributes["id"] == "\u{FFFD}x")
    }

    @Test("every character that XML can carry survives, every other one is replaced")
    func everyScalar() throws {
        var value = ""
        var expected = ""
        for number in UInt32(0)...0x1_0000 {
            guard let scalar = Unicode.Scalar(number) else { continue }
            let isCharacter = number >= 0x20 && number < 0xFFFE || [9, 10, 13].contains(number) || number > 0xFFFF
            value.unicodeScalars.append(scalar)
            expected.unicodeScalars.append(isCharacter ? scalar : "\u{FFFD}")
        }
        let stanza = try read(Array(value.utf8), to: nil, id: nil)
        #expect(Array(stanza.text.utf8) == Array(expected.utf8))
    }
}
