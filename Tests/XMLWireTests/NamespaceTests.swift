import Testing

@testable import XMLWire

@Suite("Elements that are moved to another namespace")
struct NamespaceTests {
    private static let header =
        "<stream:stream xmlns='urn:from' xmlns:stream='http://etherx.jabber.org/streams'>"

    @Test(
        "Both readers' stanzas: what was in the one namespace is in the other, everything else stays as it came",
        arguments: [
            // Read plain, then by libxml2 for its character reference.
            "<m a='1'><x xmlns='urn:x'>t</x><n/></m>", "<m a='&#49;'><x xmlns='urn:x'>t</x><n/></m>",
            "<m xmlns='urn:from' a='1'><x xmlns='urn:x'>t</x><n/></m>",
            "<p:m xmlns:p='urn:from' a='1'><x xmlns='urn:x'>t</x><p:n/></p:m>",
        ]
    )
    func moved(_ xml: String) throws {
        let framer = XMLFramer()
        var count = 0
        try Array((Self.header + xml + xml).utf8).withUnsafeBytes { bytes in
            try framer.feed(bytes) { event in
                guard case .stanza(let stanza) = event else { return }
                count += 1
                stanza.moveElements(from: "urn:from", to: "urn:a-longer-name")
                #expect(stanza.element(0, is: "m", in: "urn:a-longer-name"))
                #expect(stanza.element(1, is: "x", in: "urn:x"))
                #expect(stanza.element(2, is: "n", in: "urn:a-longer-name"))
                #expect(stanza.attribute("a", of: 0).map { stanza.string($0) } == "1")
                #expect(stanza.string(stanza.elements[1].text) == "t")
                #expect(stanza.raw == Array(xml.utf8))
            }
        }
        #expect(count == 2)
    }
}
