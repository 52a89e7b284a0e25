import Testing

@testable import XMLWire

@Suite("What a stanza holds")
struct FramerContentTests {
    private func stanza(_ text: String) throws -> [RecordedElement] {
        let recording = record(header + text)
        #expect(recording.failure == nil)
        return try #require(recording.stanzas.first).elements
    }

    @Test(
        "gcm in its namespace, in every way to write it",
        arguments: [
            "<gcm xmlns='google:mobile:data'>{\"a\":1}</gcm>",
            "<data:gcm xmlns:data='google:mobile:data'>{\"a\":1}</data:gcm>",
            "<gcm xmlns=\"google:mobile:data\">{&quot;a&quot;:1}</gcm>",
            "<gcm xmlns='google:mobile:data'><![CDATA[{\"a\":1}]]></gcm>",
            "<gcm xmlns='google:mobile:data'>{&#34;a<![CDATA[\":]]>&#x31;}</gcm>",
            "<delay xmlns='urn:xmpp:delay'>x</delay><gcm xmlns='google:mobile&#58;data'>{\"a\":1}</gcm>",
        ]
    )
    func gcm(child: String) throws {
        let elements = try stanza("<message>\(child)</message>")
        let gcm = try #require(elements.last)
        #expect(elements[0].name == "message")
        #expect(elements[0].namespace == "jabber:client")
        #expect(gcm.name == "gcm")
        #expect(gcm.namespace == "google:mobile:data")
        #expect(gcm.depth == 1)
        #expect(gcm.text == "{\"a\":1}")
        #expect(gcm.attributes.isEmpty)
    }

    @Test("direct text is joined over the children in between, and holds none of theirs")
    func mixedContent() throws {
        let elements = try stanza("<m>a<b>x<c/>y<c>z</c>w</b>b<![CDATA[c]]><b/>&#100;<b>v</b></m>")
        #expect(elements.map(\.text) == ["abcd", "xyw", "", "z", "", "v"])
        #expect(elements.map(\.depth) == [0, 1, 2, 2, 1, 1])
        #expect(elements.map(\.end) == [6, 4, 3, 4, 5, 6])
    }

    @Test("attributes keep order and namespace; declarations are not among them")
    func attributes() throws {
        let elements = try stanza("<m b='2' a='&lt;&#10;x' xmlns:p='urn:p' p:a=\"'\" xml:lang='de'/>")
        #expect(
            elements[0].attributes == [
                "{}b=2", "{}a=<\nx", "{urn:p}a='", "{http://www.w3.org/XML/1998/namespace}lang=de",
            ]
        )
    }

    @Test("ampersands in attributes and namespace names, in every way to write them")
    func ampersands() throws {
        let elements = try stanza(
            "<m a='&amp;' b='x&#38;y&#x26;' c='&amp;#38;&amp;amp;' d='a&amp;b' xmlns='urn:a&amp;b'/>"
        )
        #expect(elements[0].attributes == ["{}a=&", "{}b=x&y&", "{}c=&#38;&amp;", "{}d=a&b"])
        #expect(elements[0].namespace == "urn:a&b")
    }

    @Test("line ends are normalised in the text and verbatim in the raw bytes")
    func lineEnds() {
        let recording = record(header + "<m>a\r\nb\rc&#13;</m>")
        #expect(recording.stanzas.first?.elements.first?.text == "a\nb\nc\r")
        #expect(recording.stanzas.first?.raw == "<m>a\r\nb\rc&#13;</m>")
    }

    /// Longer than a piece in which libxml2 hands a section on, and with a pair of bytes at each place of its ends.
    @Test("line ends of a CDATA section are those of the same text", arguments: 280...320)
    func lineEndsOfSections(count: Int) {
        let filler = String(repeating: "x", count: count)
        let text = "\(filler)\r\n\r\r\n\n\r\(filler)\r\n\(filler)\r"
        let stream =
            header + "<m>\(text)<n/></m><m><![CDATA[\(text)]]><n/></m><m><![CDATA[\r]]>\n<![CDATA[\n\r]]>\n</m>"
        let whole = record(stream)
        let texts = whole.stanzas.map { $0.elements[0].text }
        #expect(texts.count == 3 && texts[0] == "\(filler)\n\n\n\n\n\(filler)\n\(filler)\n")
        #expect(texts[1] == texts[0])
        #expect(texts[2] == "\n\n\n\n\n")
        for size in [1, 2, 3, 299, 301] { #expect(record(Array(stream.utf8).pieces(of: size)) == whole, "\(size)") }
    }

    /// libxml2 2.9 counts digits twice and takes no letter from the eleventh on; docs/protocol.md says so.
    @Test("a hexadecimal reference may have ten digits, and more that are no letters")
    func longReferences() {
        #expect(record(header + "<m>&#x000001F60A;&#x000000000041;</m>").stanzas.first?.elements.first?.text == "😊A")
        #expect(record(header + "<m>&#x0000001F60A;</m>").failure?.code == .notWellFormed)
    }

    @Test("a stanza may have the stream's own prefix, and prefixes of the header")
    func prefixes() throws {
        let recording = record(
            "<s:stream xmlns:s='http://etherx.jabber.org/streams' xmlns:g='google:mobile:data' xmlns='jabber:client'>"
                + "<s:features/><message><g:gcm>{}</g:gcm></message></s:stream>"
        )
        #expect(recording.failure == nil)
        #expect(recording.stanzas[0].elements[0].namespace == "http://etherx.jabber.org/streams")
        #expect(recording.stanzas[1].elements[1].namespace == "google:mobile:data")
    }

    @Test("the look-ups of a stanza")
    func lookUps() throws {
        let framer = XMLFramer()
        var found: [Int?] = []
        let bytes = Array(
            (header + "<message to='x'><forwarded><gcm xmlns='g'/></forwarded><gcm/><gcm xmlns='g' to='y'/></message>")
                .utf8
        )
        try framer.feed(bytes) { event in
            guard case .stanza(let stanza) = event else { return }
            found = [
                stanza.child("gcm", in: "g"), stanza.child("gcm", in: "x"), stanza.child("gcm", in: "g", of: 1),
            ]
            #expect(stanza.children() == [1, 3, 4])
            #expect(stanza.attribute("to", of: 0).map(stanza.string) == "x")
            #expect(stanza.attribute("from", of: 0) == nil)
            #expect(stanza.element(0, is: "message", in: "jabber:client"))
        }
        #expect(found == [4, nil, 2])
    }

    @Test("a stream that opens and closes in one tag, also torn between the two characters that close it")
    func selfClosing() {
        let text = "<stream:stream xmlns:stream='http://etherx.jabber.org/streams'/>"
        for size in [1, text.utf8.count - 1, text.utf8.count] {
            let recording = record(Array(text.utf8).pieces(of: size)) { framer, _ in
                #expect(framer.unreadBytes == 0)
            }
            #expect(recording.failure == nil)
            #expect(recording.events.count == 2)
            #expect(recording.events.last == .closed)
        }
    }
}
