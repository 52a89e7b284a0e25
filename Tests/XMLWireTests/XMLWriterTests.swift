import Testing

@testable import XMLWire

@Suite("Writing XML")
struct XMLWriterTests {
    private func text(_ write: (inout XMLWriter) -> Void) -> String {
        var writer = XMLWriter()
        write(&writer)
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    @Test("elements, attributes, text")
    func elements() {
        let written = text { writer in
            writer.start("iq")
            writer.attribute("type", "set")
            writer.attribute("id", "b1")
            writer.start("bind")
            writer.attribute("xmlns", "urn:ietf:params:xml:ns:xmpp-bind")
            writer.start("resource")
            writer.text("r")
            writer.end()
            writer.start("x")
            writer.end()
            writer.end()
            writer.end()
        }
        #expect(
            written
                == "<iq type='set' id='b1'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><resource>r</resource><x/></bind></iq>"
        )
    }

    @Test("a stream header stays open over two fillings")
    func streamHeader() {
        var writer = XMLWriter()
        writer.declaration()
        writer.start("stream:stream")
        writer.attribute("to", "a.example")
        writer.finishStartTag()
        #expect(writer.bytes == Array("<?xml version='1.0'?><stream:stream to='a.example'>".utf8))
        writer.removeAll()
        writer.end()
        #expect(writer.bytes == Array("</stream:stream>".utf8))
    }

    static let values = [
        "", "plain", "<>&'\"", "]]>", "</gcm></message><message>", "a\tb\nc\rd\r\n", "é€😀\u{7F}\u{85}\u{FFFD}",
        "&amp;lt;",
        "' to='x", "\u{202E}abc", String(repeating: "<\"&'>", count: 1000), " leading and trailing ",
        "{\"a\":\"\\u0000\"}",
    ]

    @Test("any text comes back as it went in, in text and in an attribute", arguments: values)
    func roundTrip(value: String) throws {
        let stanza = text { writer in
            writer.start("a")
            writer.attribute("b", value)
            writer.text(value)
            writer.start("c")
            writer.text(utf8: Array(value.utf8))
            writer.end()
            writer.end()
        }
        let recording = record(header + stanza + "<after/>")
        #expect(recording.failure == nil)
        #expect(recording.stanzas.count == 2)
        let elements = try #require(recording.stanzas.first).elements
        #expect(elements.count == 2)
        #expect(elements.map { Array($0.text.utf8) } == [Array(value.utf8), Array(value.utf8)])
        #expect(elements[0].attributes.map { Array($0.utf8) } == [Array("{}b=\(value)".utf8)])
    }

    @Test("what XML 1.0 cannot carry is replaced and counted")
    func replaced() {
        var writer = XMLWriter()
        writer.start("a")
        writer.attribute("b", "\u{0}x\u{1F}")
        writer.text("\u{1}\u{8}\u{B}\u{C}\u{E}\u{FFFE}\u{FFFF}\u{FFFD}\u{FFEF}y")
        writer.text(utf8: [0x41, 0xC0, 0xAF, 0xED, 0xA0, 0x80, 0xE2, 0x82])
        writer.end()
        #expect(writer.replacedCharacters == 9)
        let stanza = String(decoding: writer.bytes, as: UTF8.self)
        let recording = record(header + stanza)
        #expect(recording.failure == nil)
        #expect(recording.stanzas.first?.elements.first?.attributes == ["{}b=\u{FFFD}x\u{FFFD}"])
        #expect(stanza.contains("\u{FFFD}\u{FFFD}\u{FFFD}\u{FFFD}\u{FFFD}\u{FFFD}\u{FFFD}\u{FFFD}\u{FFEF}yA\u{FFFD}"))
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
        let stanza = text { writer in
            writer.start("a")
            writer.text(value)
            writer.end()
        }
        let recording = record(header + stanza)
        #expect(recording.failure == nil)
        let element = try #require(recording.stanzas.first?.elements.first)
        #expect(Array(element.text.utf8) == Array(expected.utf8))
    }
}
